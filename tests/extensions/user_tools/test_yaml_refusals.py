"""A broken tool file says everything that is wrong with it, each thing with file, line and key;
nothing of it loads."""

from pathlib import Path
from typing import Any

from codeagent.core.tool import Tool
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.folders import Loaded, LoaderNeeds, ToolFile
from tests.table import for_each

BUILTINS: dict[str, Tool[Any]] = {
    "read": object.__new__(Read),
    "search": object.__new__(Search),
    "bash": object.__new__(Bash),
}
LOADER = YamlLoader(
    LoaderNeeds(
        None,  # type: ignore[arg-type]  # nothing runs here
        None,  # type: ignore[arg-type]  # nothing runs here
        lambda: BUILTINS,
    )
)
HEAD = "name: count\ndescription: Count the words of a file.\n"


def load(text: str | bytes, place: str = "project") -> Loaded:
    content = text if isinstance(text, bytes) else text.encode()
    return LOADER.load(ToolFile(Path("/x/words.yaml"), "words.yaml", content, place))  # type: ignore[arg-type]  # one of two


def errors(text: str | bytes) -> list[str]:
    loaded = load(text)
    found = [str(problem) for problem in loaded.problems if problem.level == "error"]
    assert not found or loaded.tools == ()
    return found


DURATION = "write seconds as a number, or a duration such as 30s, 5m or 1h30m"
TYPES = "string, integer, number, boolean, array, object or path"
OPEN_LIST = "expected ',' or ']', but got ':' (while parsing a flow sequence)"
ARGS = "parameters: [{name: p}]\n"
UNTRIED = (
    "approval: only a command in the sandbox without network, and not in the background, can be "
    "tried out"
)
BROKEN: list[tuple[str | bytes, list[str]]] = [
    # the text itself
    (b"name: \xff\n", ["words.yaml:1: it is not UTF-8"]),
    ("name: [1, 2\nargv: x\n", [f"words.yaml:2: it is not YAML: {OPEN_LIST}"]),
    ("name: a\nname: b\n", ["words.yaml:2: the key 'name' appears twice, first on line 1"]),
    ("name: a\x00b\n", ["words.yaml:1: the character U+0000 is not allowed in YAML"]),
    (
        "name: !!python/object:os.system x\n",
        ["words.yaml:1: the tag !!python/object:os.system is not allowed"],
    ),
    ("name: a\nargv: !run [x]\n", ["words.yaml:2: the tag !run is not allowed"]),
    (
        "base: &b {name: x}\n<<: *b\n",
        ["words.yaml:2: merge keys (<<) are not supported; write the keys out"],
    ),
    ("yes: 1\n", ["words.yaml:1: the key 'yes' is not text; put it in quotes"]),
    ("name: a\ntimeout: .inf\n", ["words.yaml:2: .inf is not a number that can be used"]),
    ("name: a\nenv: *gone\n", ["words.yaml:2: it is not YAML: found undefined alias 'gone'"]),
    (
        "name: a\nenv: &e {a: *e}\n",
        ["words.yaml:2: an alias stands for something that holds itself"],
    ),
    # what it is
    ("just text\n", ["words.yaml:1: a tool is a mapping, not a string"]),
    ("tools: {}\n", ["words.yaml:1: tools: a list is expected, not an object"]),
    ("tools: [3]\n", ["words.yaml:1: tools[0]: a tool is a mapping, not a number"]),
    ("{}\n", ["words.yaml:1: name is missing"]),
    (
        "name: a b\n",
        ["words.yaml:1: name: 'a b' is not a name; use 1 to 64 letters, digits, _ or -"],
    ),
    (HEAD, ["words.yaml:1: give one of argv, command and builtin"]),
    (
        "name: x\nargv: [ls]\n",
        ["words.yaml:1: description is missing; the model chooses tools by their description"],
    ),
    (HEAD + "argv: [ls]\ncommand: ls\n", ["words.yaml:4: command: give argv or command, not both"]),
    (HEAD + "argv: ls\n", ["words.yaml:3: argv: a list is expected, not a string"]),
    (HEAD + "argv: []\n", ["words.yaml:3: argv: it is empty"]),
    (HEAD + "argv: [sleep, 1]\n", ["words.yaml:3: argv[1]: an item is text; put it in quotes"]),
    (HEAD + "comand: ls\n", ["words.yaml:3: comand: no such key; did you mean command?"]),
    (HEAD + "argv: [ls]\ntimeout: soon\n", [f"words.yaml:4: timeout: {DURATION}"]),
    (
        HEAD + "argv: [ls]\ntimeout: 25h\n",
        ["words.yaml:4: timeout: it should be less than or equal to 86400"],
    ),
    (HEAD + "argv: [ls]\ntimeout: 0\n", ["words.yaml:4: timeout: it should be greater than 0"]),
    (
        HEAD + "argv: [ls]\nmode: stateful\n",
        ["words.yaml:4: mode: write direct or background, not 'stateful'"],
    ),
    (
        HEAD + "argv: [ls]\napproval: yes\n",
        ["words.yaml:4: approval: write auto, prompt, deny or effects, not 'true'"],
    ),
    (HEAD + "argv: [ls]\nnetwork: true\napproval: effects\n", [f"words.yaml:5: {UNTRIED}"]),
    (HEAD + "argv: [ls]\nmode: background\napproval: effects\n", [f"words.yaml:5: {UNTRIED}"]),
    ("name: words\nbuiltin: read\napproval: effects\n", [f"words.yaml:3: {UNTRIED}"]),
    (
        HEAD + "argv: [ls]\nmax_calls: 0\n",
        ["words.yaml:4: max_calls: it should be greater than or equal to 1"],
    ),
    # parameters
    (
        HEAD + "argv: [ls]\nparameters:\n  - name: p\n    type: strng\n",
        [f"words.yaml:6: parameters[0].type: write {TYPES}, not 'strng'"],
    ),
    (
        HEAD + "argv: [ls]\nparameters:\n  - nam: p\n",
        [
            "words.yaml:5: parameters[0]: name is missing",
            "words.yaml:5: parameters[0].nam: no such key; did you mean name?",
        ],
    ),
    (
        HEAD + "argv: [ls, '{{args.p}}']\nparameters:\n- name: p\n- name: p\n",
        ["words.yaml:6: parameters[1].name: there is another parameter p"],
    ),
    (
        HEAD
        + "argv: [ls, '{{args.p}}']\nparameters:\n- name: p\n  type: integer\n  default: five\n",
        ["words.yaml:7: parameters[0].default: it should be a valid integer"],
    ),
    (
        HEAD
        + "argv: [ls, '{{args.p}}']\nparameters:\n- name: p\n  required: true\n  default: five\n",
        ["words.yaml:6: parameters[0].required: a required parameter cannot have a default"],
    ),
    (
        HEAD + "argv: [ls, '{{args.p}}']\nparameters:\n- {name: p, schema: {minimum: x}}\n",
        ["words.yaml:5: parameters[0].schema: minimum: 'x' is not of type 'number'"],
    ),
    (
        HEAD + "argv: [ls, '{{args.p}}']\nparameters:\n- {name: p, schema: {pattern: '('}}\n",
        [
            "words.yaml:5: parameters[0].schema: pattern: the pattern does not compile: "
            "missing ), unterminated subpattern at position 0"
        ],
    ),
    (
        HEAD
        + "argv: [ls, '{{args.p}}']\nparameters:\n- {name: p, schema: {$ref: 'https://example.org/x'}}\n",
        [
            "words.yaml:5: parameters[0].schema: $ref: "
            "a reference must stay inside the schema (#/…); nothing is fetched"
        ],
    ),
    (
        HEAD
        + "argv: [ls, '{{args.p}}']\nparameters:\n- {name: p, type: integer, schema: {type: string}}\n",
        ["words.yaml:5: parameters[0].schema.type: the schema says string, but type says integer"],
    ),
    (
        HEAD + "argv: [ls, '{{args.p}}']\nparameters: [{name: p, value: 3}]\n",
        [
            "words.yaml:4: parameters[0].value: only a tool with builtin has set values; write it into the template"
        ],
    ),
    # placeholders
    (
        HEAD + ARGS + "command: |\n  echo one\n  echo {{args.q}}\n",
        ["words.yaml:6: command: {{args.q}} does not name a parameter; there are p"],
    ),
    (
        HEAD + ARGS + "argv: [echo, '{{p}}']\n",
        ["words.yaml:4: argv[1]: {{p}} is not a placeholder; write {{args.p}}"],
    ),
    (
        HEAD + ARGS + "argv: ['{{args.p}}']\n",
        ["words.yaml:4: argv[0]: {{args.p}} is not allowed here: it would name the program"],
    ),
    (
        HEAD + ARGS + "argv: [env, A=1, '{{args.p}}']\n",
        [
            "words.yaml:4: argv[2]: {{args.p}} is not allowed here: it would name the program that env runs"
        ],
    ),
    (
        HEAD + ARGS + "argv: [bash, -c, 'ls {{args.p}}']\n",
        [
            "words.yaml:4: argv[2]: {{args.p}} is not allowed here: "
            "it would be run as shell code; put it after that, and use it there as $1"
        ],
    ),
    (
        HEAD + "parameters: [{name: p, type: array}]\nargv: [ls, 'a{{args.p}}']\n",
        [
            "words.yaml:4: argv[1]: {{args.p}} is a list, which must be the whole item to become one argument for each"
        ],
    ),
    (
        HEAD + ARGS + "command: echo $(({{args.p}} + 1))\n",
        [
            "words.yaml:4: command: {{args.p}} is not allowed here: "
            "arithmetic evaluates what it is given; only a parameter of type integer is safe in it"
        ],
    ),
    (
        HEAD + ARGS + "command: |\n  cat <<'EOF'\n  {{args.p}}\n  EOF\n",
        [
            "words.yaml:6: command: {{args.p}} is not allowed here: "
            "a here-document does not quote it; remove the quotes from its mark; "
            "write p={{args.p}} on a line before it, and here ${p}"
        ],
    ),
    (
        HEAD + ARGS + "command: echo 'a {{args.p}}\n",
        [
            "words.yaml:4: command: {{args.p}} is not allowed here: line 1 of the command cannot be parsed"
        ],
    ),
    (
        HEAD + "parameters: [{name: p, required: false}]\ncommand: x={{args.p}}\n",
        [
            "words.yaml:4: command: {{args.p}} is not allowed here: "
            "its argument cannot be left out if it is missing; give it a default"
        ],
    ),
    # folder, environment, network, restrictions
    (
        HEAD + "argv: [ls]\ncwd: ../x\n",
        ["words.yaml:4: cwd: it must be a folder of the workspace, relative to its root"],
    ),
    (
        HEAD + "argv: [ls]\nenv: {A-B: x}\n",
        ["words.yaml:4: env.A-B: 'A-B' is not the name of a variable"],
    ),
    (
        HEAD + "argv: [ls]\nenv: {A: 1}\n",
        ["words.yaml:4: env.A: a text is expected, not a number; put it in quotes"],
    ),
    (
        HEAD + ARGS + "argv: [ls, '{{args.p}}']\nenv: {PATH: '{{args.p}}'}\n",
        ["words.yaml:5: env.PATH: PATH controls what is run, so it must not contain an argument"],
    ),
    (
        HEAD + "argv: [ls]\nnetwork: 5\n",
        ["words.yaml:4: network: write true, false, or a list of host names"],
    ),
    (
        HEAD + "argv: [ls]\nnetwork: ['https://x.org/']\n",
        [
            "words.yaml:4: network: 'https://x.org/' is not a host: "
            "write example.org, *.example.org or example.org:8443"
        ],
    ),
    (
        HEAD + "argv: [ls]\nrestrictions: {hosts: [a.org]}\n",
        [
            "words.yaml:4: restrictions.hosts: there is nothing to reach without network; set network"
        ],
    ),
    (
        HEAD + "argv: [ls]\nnetwork: [b.org]\nrestrictions: {hosts: [a.org]}\n",
        ["words.yaml:4: network: b.org is not among restrictions.hosts"],
    ),
    (
        HEAD + "argv: [ls]\nnetwork: ['a.org:8443']\nrestrictions: {hosts: [a.org]}\n",
        ["words.yaml:4: network: a.org:8443 is not among restrictions.hosts"],
    ),
    (
        HEAD + "argv: [ls]\nnetwork: [localhost]\n",
        [
            "words.yaml:4: network: 'localhost' is not a host: write example.org, *.example.org or example.org:8443"
        ],
    ),
    (
        HEAD + "argv: [ls]\nrestrictions: {paths: {read: ['src/**']}}\n",
        [
            "words.yaml:4: restrictions.paths: no parameter is of type path, so the list restricts nothing"
        ],
    ),
    (
        HEAD + "argv: [rm, x]\nrestrictions: {commands: [git log]}\n",
        ["words.yaml:4: restrictions.commands: this tool may not run 'rm x', only git log"],
    ),
    (
        HEAD + "command: git log $(ls)\nrestrictions: {commands: [git log, ls]}\n",
        [
            "words.yaml:4: restrictions.commands: "
            "the line may run more than can be seen; this tool may run only git log, ls"
        ],
    ),
    # built-in tools
    (
        "name: x\nbuiltin: reed\n",
        ["words.yaml:2: builtin: unknown built-in tool reed; did you mean read?"],
    ),
    (
        "name: x\nbuiltin: read\nargv: [ls]\n",
        ["words.yaml:3: argv: it cannot be combined with builtin"],
    ),
    (
        "name: x\nbuiltin: read\nparameters: [{name: pth}]\n",
        ["words.yaml:3: parameters[0].name: read has no argument pth; did you mean path?"],
    ),
    (
        "name: x\nbuiltin: read\nparameters: [{name: limit}]\n",
        ["words.yaml:3: parameters: read needs path: list it, or set it with value"],
    ),
    (
        "name: x\nbuiltin: read\nrestrictions: {paths: {write: [a]}, commands: [ls]}\n",
        [
            "words.yaml:3: restrictions.commands: read runs no commands",
            "words.yaml:3: restrictions.paths.write: it does not apply to read, which does not write its path",
        ],
    ),
    (
        "name: x\nbuiltin: search\nrestrictions: {paths: {read: ['*.py']}}\n",
        [
            "words.yaml:3: restrictions.paths.read: search goes through whole folders: each glob must end in **"
        ],
    ),
    # several at once
    (
        "tools:\n- name: a b\n  argv: [ls]\n- name: c\n  builtin: nothing\n",
        [
            "words.yaml:2: tools[0].name: 'a b' is not a name; use 1 to 64 letters, digits, _ or -",
            "words.yaml:5: tools[1].builtin: unknown built-in tool nothing; there are read, search, bash",
        ],
    ),
    (
        f"{HEAD}argv: [ls]\n---\n{HEAD}argv: [ls]\n",
        ["words.yaml:5: name: words.yaml:1 already has a tool named count"],
    ),
    # toolsets
    (
        "toolsets:\n- {name: a b, source: hub, tools: [x]}\n- name: c\n  source: hub\n- {name: d, tags: [x]}\n"
        "- {name: e, source: hub, tool: [x], paths: [y]}\n",
        [
            "words.yaml:2: toolsets[0].name: 'a b' is not a name; use 1 to 64 letters, digits, _ or -, and no digit "
            "or - first",
            "words.yaml:3: toolsets[1]: give tools, tags or paths",
            "words.yaml:5: toolsets[2]: source is missing",
            "words.yaml:6: toolsets[3].tool: no such key; did you mean tools?",
        ],
    ),
    ("toolsets: []\n", ["words.yaml:1: toolsets: it is empty"]),
    (
        "tools: []\ntoolsets: [{name: a, source: hub, tools: [x]}]\n",
        ["words.yaml:1: tools: it is empty"],
    ),
]


@for_each(("text", "expected"), BROKEN)
def test_what_is_wrong_is_said_with_its_file_line_and_key(
    text: str | bytes, expected: list[str]
) -> None:
    assert errors(text) == expected


def test_everything_that_is_wrong_is_said_at_once() -> None:
    text = (
        "name: bad tool\ndescripton: x\nparameters:\n  - name: 9x\n    type: strng\nargv: ['{{args.q}}']\n"
        "timeout: soon\n"
    )
    assert errors(text) == [
        "words.yaml:1: name: 'bad tool' is not a name; use 1 to 64 letters, digits, _ or -",
        "words.yaml:2: descripton: no such key; did you mean description?",
        "words.yaml:4: parameters[0].name: "
        "'9x' is not a name; use 1 to 64 letters, digits, _ or -, and no digit or - first",
        f"words.yaml:5: parameters[0].type: write {TYPES}, not 'strng'",
        "words.yaml:6: argv[0]: {{args.q}} does not name a parameter; there are 9x",
        f"words.yaml:7: timeout: {DURATION}",
    ]


EIGHT_TIMES = "{1}: &{1} [*{0},*{0},*{0},*{0},*{0},*{0},*{0},*{0}]\n".format


@for_each(
    ("bomb", "said"),
    [
        (
            "a: &a [x,x]\n" + "".join(map(EIGHT_TIMES, "abcdef", "bcdefg")),
            "stand for more than 10000 values",
        ),
        ("a: &a x\nb: [" + "*a," * 200 + "]\n", "more than 100 aliases"),
        ("a: " + "[" * 5000 + "]" * 5000, "more than 24 levels deep"),
        ("a: " + "{b: " * 5000 + "}" * 5000, "more than 24 levels deep"),
        ("".join(f"{'  ' * n}a:\n" for n in range(300)), "more than 24 levels deep"),
        ("[" + "x," * 20_000 + "]", "more than 10000 values"),
        ("a: " + "x" * 70_000, "longer than 64 KiB"),
        ("# " + "x" * 300_000, "larger than 256 KiB"),
        ("a: " + "9" * 5000, "the number 99999999999999999999… is too long"),
        ("? [a]\n: 1\n", "the key 'a collection' is not text"),
        ("%YAML 9.9\n---\na: 1\n", "it is not YAML"),
        ("a: !!binary x\n", "the tag !!binary is not allowed"),
        ("a: !!int x\n", "does not fit the tag !!int"),
        ("a: !!timestamp 2020-01-01\nb: !!set {x}\n", "the tag !!set is not allowed"),
        ("\ud800".encode("utf-8", "surrogatepass"), "it is not UTF-8"),
    ],
)
def test_a_bomb_does_no_harm(bomb: str | bytes, said: str) -> None:
    [error] = errors(bomb)
    assert said in error


def test_an_empty_file_is_only_a_warning() -> None:
    assert [problem.level for problem in load("# nothing yet\n").problems] == ["warning"]


def test_text_in_braces_for_other_programs_is_left_alone() -> None:
    assert errors(HEAD + "argv: [docker, ps, --format, '{{.Names}} {{json .}}']\n") == []


@for_each(
    "code", [["python3", "-c"], ["perl", "-e"], ["node", "--eval"], ["awk"], ["sed", "-n"], ["jq"]]
)
def test_a_value_in_the_code_of_another_language_is_warned_about(code: list[str]) -> None:
    argv = ", ".join([*code, "'print({{args.p}})'"])
    [warning] = [
        str(one) for one in load(HEAD + ARGS + f"argv: [{argv}]\n").problems if "code" in one.text
    ]
    assert (
        f"words.yaml:4: argv[{len(code)}]: the value becomes part of a program for {code[0]}"
        in warning
    )


def test_a_parameter_that_is_used_nowhere_is_warned_about() -> None:
    loaded = load(HEAD + ARGS + "argv: [ls]\n")
    assert "words.yaml:3: parameters[0]: p is not used" in map(str, loaded.problems)
    assert len(loaded.tools) == 1


@for_each(
    "text, names",
    [
        ("name: bash\nbuiltin: true\nrestrictions: {comands: [git]}\n", ("bash",)),
        (
            "tools: [{name: bash, builtin: true}, {name: read, builtin: read, a: 1}]\n",
            ("bash", "read"),
        ),
        ("name: bash\nbultin: true\nrestrictions: {commands: [git]}\n", ("bash",)),
        ("builtin: search\nrestrictions: [src/**]\n", ("search",)),
        ("name: bash\nbuiltin: true\nrestrictions: {commands: [git\n", ("bash",)),
        ("name: 'read'\nbuiltin: true\nname: read\n", ("read",)),
        ("name: docs\nbuiltin: read\nrestrictions: {comands: [git]}\n", ()),
        ("name: docs\nbuiltin: read\nrestrictions: {commands: [git\n", ()),
        ("name: bash\nargv: ls\nrestrictions: {commands: [git]}\n", ()),
        (HEAD + "argv: ls\nparameters: [{name: search}]\n", ()),
    ],
)
def test_a_broken_file_says_which_built_in_tools_it_would_narrow(
    text: str, names: tuple[str, ...]
) -> None:
    assert errors(text)
    assert load(text).unnarrowed == names
