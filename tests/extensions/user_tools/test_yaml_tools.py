"""Tools of YAML files do what each field says."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.messages import text_of
from codeagent.core.policy import Policy, Rule
from codeagent.core.sandbox import CommandResult
from codeagent.core.tool import Denied, Failed, InvalidArgs, OpenArgs, Tool, ToolResult
from codeagent.extensions.user_tools.yaml_loader import YamlLoader
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.read import Read
from codeagent.tools.builtin.search import Search
from codeagent.tools.builtin.write import Write
from codeagent.tools.edit.reads import ReadTracker
from codeagent.tools.folders import Loaded, LoaderNeeds, ToolFile
from codeagent.workspace.files import LocalWorkspace
from tests.fakes import FakeOutputs, FakeSandbox, put, tool_context
from tests.table import for_each

HEAD = "name: deploy\ndescription: Deploy a version of the service.\n"


class Box:
    """A workspace, and tools made of text."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = LocalWorkspace(root)
        self.reads = ReadTracker(self.workspace)
        outputs = FakeOutputs()
        inner: list[Tool] = [  # type: ignore[type-arg]  # of many kinds
            Bash(outputs, self.reads),
            Read(self.workspace, self.reads),
            Write(self.workspace, self.reads),
            Search(self.workspace, self.reads),
        ]
        builtins = {tool.name: tool for tool in inner}
        self.loader = YamlLoader(LoaderNeeds(outputs, self.reads, lambda: builtins))
        self.sandbox = FakeSandbox([("stdout", b"out\n")])

    def load(self, text: str, place: str = "project") -> Loaded:
        return self.loader.load(ToolFile(self.root / "t.yaml", "t.yaml", text.encode(), place))  # type: ignore[arg-type]  # one of two

    def tool(self, text: str, place: str = "project") -> Tool[OpenArgs]:
        loaded = self.load(text, place)
        assert [str(one) for one in loaded.problems if one.level == "error"] == []
        return loaded.tools[0]

    async def call(self, tool: Tool[OpenArgs], **arguments: object) -> ToolResult:
        args = parse_arguments(tool, json.dumps(arguments))
        context = replace(tool_context(self.workspace, self.sandbox), name=tool.name)
        await tool.preview(args, context)
        return await tool.run(args, context)  # type: ignore[arg-type]  # what the tool's own schema let through

    async def script(self, text: str, **arguments: object) -> str:
        """What the sandbox is given."""
        await self.call(self.tool(text), **arguments)
        return self.sandbox.commands[-1].text


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    (tmp_path / "project").mkdir()
    made = Box(tmp_path / "project")
    yield made
    made.workspace.close()


def key(tool: Tool[OpenArgs], **arguments: object):  # type: ignore[no-untyped-def]  # an ApprovalKey
    return tool.approval_key(parse_arguments(tool, json.dumps(arguments)))  # type: ignore[arg-type]  # its own


async def test_a_result_is_that_of_a_command(box: Box) -> None:
    tool = box.tool(HEAD + "argv: [./deploy.sh]\n")
    result = await box.call(tool)
    assert text_of(result.content) == "out"
    assert result.blocks == (
        TerminalBlock(command="exec -- ./deploy.sh", output="out", exit_code=0),
    )
    box.sandbox.result = CommandResult(exit_code=3)
    with pytest.raises(Failed, match="exit code 3"):
        await box.call(tool)


async def test_without_a_sandbox_it_fails_and_says_so(box: Box) -> None:
    box.sandbox = None  # type: ignore[assignment]  # there is none
    with pytest.raises(Failed, match="without a sandbox, deploy cannot run"):
        await box.call(box.tool(HEAD + "argv: [ls]\n"))


def test_every_field_arrives(box: Box) -> None:
    text = HEAD + (
        "label: Deploy it\nargv: [./d]\ntimeout: 7\nmode: background\nmax_calls: 2\nhint: Test first.\n"
        "documentation: '# All'\napproval: deny\n"
    )
    tool = box.tool(text)
    facts = (
        tool.name,
        tool.label,
        tool.timeout,
        tool.mode,
        tool.max_calls,
        tool.hint,
        tool.documentation,
    )
    assert facts == ("deploy", "Deploy it", 7, "background", 2, "Test first.", "# All")
    assert (tool.permission, tool.source, tool.origin, tool.sandboxed) == (
        "deny",
        "yaml",
        "t.yaml:1",
        True,
    )
    args = OpenArgs()
    assert tool.time_limit(args) == 7 and tool.in_background(args)
    assert box.tool(HEAD + "argv: [ls]\n").time_limit(args) == 120


def test_several_documents_and_a_list_give_several_tools(box: Box) -> None:
    text = (
        HEAD
        + "argv: [a]\n---\ntools:\n- {name: two, description: d, argv: [b]}\n- {name: three, builtin: read}\n"
    )
    assert [(tool.name, tool.origin) for tool in box.load(text).tools] == [
        ("deploy", "t.yaml:1"),
        ("two", "t.yaml:6"),
        ("three", "t.yaml:7"),
    ]


async def test_args_and_inputs_are_the_same_and_defaults_are_filled_in(box: Box) -> None:
    text = (
        HEAD + "parameters: [{name: a, default: x y}]\nargv: [p, '{{args.a}}', '{{ inputs.a }}']\n"
    )
    assert await box.script(text) == "exec -- p 'x y' 'x y'"


async def test_a_missing_argument_drops_its_item_and_what_is_grouped_with_it(box: Box) -> None:
    text = HEAD + (
        "parameters: [{name: a, required: false}, {name: b, required: false}]\n"
        "argv: [p, '--a={{args.a}}', [--b, '{{args.b}}'], end]\n"
    )
    assert await box.script(text) == "exec -- p end"
    assert await box.script(text, a="1", b="2") == "exec -- p --a=1 --b 2 end"
    assert await box.script(text, a="") == "exec -- p --a= end"


async def test_a_missing_argument_drops_its_word_of_a_command(box: Box) -> None:
    text = (
        HEAD
        + 'parameters: [{name: a, required: false}]\ncommand: p "--a={{args.a}}" $(q {{args.a}}) end\n'
    )
    assert await box.script(text) == "p  $(q ) end"


async def test_values_are_written_as_json_writes_them(box: Box) -> None:
    text = HEAD + (
        "parameters:\n- {name: i, type: integer}\n- {name: n, type: number}\n- {name: b, type: boolean}\n"
        "- {name: o, type: object}\n- {name: l, type: array}\n"
        "argv: [p, '{{args.i}}', '{{args.n}}', '{{args.b}}', '{{args.o}}', '{{args.l}}']\n"
    )
    script = await box.script(
        text, i=5.0, n=1.5, b=True, o={"k": "é"}, l=["a", 2, False, {"x": [1]}]
    )
    assert script == 'exec -- p 5 1.5 true \'{"k":"é"}\' a 2 false \'{"x":[1]}\''


@for_each(
    ("argv", "refused"),
    [
        (["p", "{{args.a}}"], True),
        (["p", "{{args.a}}x"], True),
        (["p", "--a={{args.a}}"], False),
        (["p", "--", "{{args.a}}"], False),
        (["sudo", "--", "p", "{{args.a}}"], True),
        (["p", "{{args.e}}{{args.a}}"], True),
        (["p", "{{args.f}}{{args.a}}"], False),
        (["p", "{{args.d}}"], False),
    ],
)
@for_each("quote", ["", "'", '"'])
async def test_a_value_that_would_be_an_option_is_refused(
    box: Box, argv: list[str], refused: bool, quote: str
) -> None:
    names = [
        {"name": "a", "default": "-x"},
        {"name": "e", "default": ""},
        {"name": "f", "default": "f"},
    ]
    tool = {
        "name": "t",
        "description": "d",
        "parameters": [*names, {"name": "d", "default": "-x", "allow_dash": True}],
    }
    line = " ".join(f"{quote}{word}{quote}" if "{" in word else word for word in argv)
    for text in (json.dumps({**tool, "argv": argv}), json.dumps({**tool, "command": line})):
        if not refused:
            await box.script(text)
            continue
        with pytest.raises(
            InvalidArgs, match="begins with -, so the program would take it for an option"
        ):
            await box.script(text)


async def test_a_nul_is_refused_and_newlines_and_nothing_pass(box: Box) -> None:
    text = HEAD + "parameters: [{name: a}]\nargv: [p, '{{args.a}}']\n"
    with pytest.raises(InvalidArgs, match="NUL"):
        await box.script(text, a="x\0y")
    assert await box.script(text, a="x\ny") == "exec -- p 'x\ny'"
    assert await box.script(text, a="") == "exec -- p ''"


async def test_a_command_gets_values_in_variables(box: Box) -> None:
    text = HEAD + "parameters: [{name: a-b}]\ncommand: |-\n  echo 'it {{args.a-b}}' # arg_a_b\n"
    assert (
        await box.script(text, **{"a-b": "is'"})
        == "arg_a_b_='is'\"'\"''\necho 'it '\"${arg_a_b_}\"'' # arg_a_b"
    )


async def test_folder_variables_and_hosts_go_with_the_command(box: Box) -> None:
    (box.root / "sub dir").mkdir()
    text = HEAD + (
        "parameters: [{name: a, required: false}]\nargv: [p]\ncwd: sub dir/\nnetwork: [a.org, '*.B.org']\n"
        "env: {LEVEL: high, NOTE: 'a {{args.a}}'}\n"
    )
    assert (
        await box.script(text, a="$x")
        == "export LEVEL=high\nexport NOTE='a $x'\ncd -- 'sub dir' || exit\nexec -- p"
    )
    assert box.sandbox.commands[-1].hosts == ("a.org", "*.b.org")
    assert "NOTE" not in await box.script(text)


async def test_a_folder_that_leads_out_of_the_workspace_is_denied(box: Box) -> None:
    (box.root / "out").symlink_to("/usr")
    with pytest.raises(Denied, match="its folder out"):
        await box.script(HEAD + "argv: [p]\ncwd: out\n")


@pytest.mark.parametrize(
    ("network", "hosts"),
    [
        ("network: true\n", ("*",)),
        ("network: true\nrestrictions: {hosts: [a.org]}\n", ("a.org",)),
        ("network: [x.a.org]\nrestrictions: {hosts: ['*.a.org']}\n", ("x.a.org",)),
        ("network: false\n", ()),
    ],
)
async def test_network_is_what_is_declared(box: Box, network: str, hosts: tuple[str, ...]) -> None:
    tool = box.tool(HEAD + "argv: [p]\n" + network)
    await box.call(tool)
    assert box.sandbox.commands[-1].hosts == hosts
    assert key(tool).network is bool(hosts)


def test_a_tool_that_may_reach_any_host_is_asked_about_once_with_what_it_needs_or_when_it_connects(
    box: Box,
) -> None:
    anywhere = key(box.tool(HEAD + "argv: [make, x]\nnetwork: true\n"))
    assert (anywhere.needs, anywhere.offline) == (
        (),
        replace(anywhere, sensitive=None, network=False, offline=None),
    )
    assert key(box.tool(HEAD + "argv: [npm, ci]\nnetwork: true\n")).needs == ("registry.npmjs.org",)
    listed = key(box.tool(HEAD + "argv: [npm, ci]\nnetwork: [a.org]\n"))
    assert (listed.needs, listed.offline) == ((), None), (
        "its question names the list, which is never asked about again"
    )


def test_network_asks_in_every_mode_unless_a_rule_names_it(box: Box) -> None:
    tool = box.tool(HEAD + "argv: [p]\nnetwork: [a.org]\napproval: auto\n", "user")
    verdict = Policy(mode="auto").check("deploy", key(tool), tool.permission, tool.effect)
    assert (verdict.permission, verdict.reason) == ("prompt", "with network access to a.org")
    rule = Rule.parse("deploy(network: *)", "auto")
    assert (
        Policy(rules=(rule,)).check("deploy", key(tool), tool.permission, tool.effect).permission
        == "auto"
    )


async def test_the_preview_shows_what_will_run_and_where_it_comes_from(box: Box) -> None:
    tool = box.tool(HEAD + "parameters: [{name: a}]\nargv: [p, '{{args.a}}']\nnetwork: [a.org]\n")
    args = parse_arguments(tool, '{"a": "x y"}')
    preview = await tool.preview(args, tool_context(box.workspace))  # type: ignore[arg-type]  # its own
    assert preview.target == "p 'x y'"
    assert preview.blocks == (
        TerminalBlock(command="exec -- p 'x y'"),
        TextBlock(text="deploy comes from t.yaml:1. It may reach a.org."),
    )


RULED = HEAD + (
    "parameters: [{name: env}, {name: version, required: false}, {name: note, required: false}]\n"
    "argv: [rm, '{{args.env}}', '{{args.version}}']\n"
)


@pytest.mark.parametrize(
    ("rule", "arguments", "allowed"),
    [
        ("deploy(staging *)", {"env": "staging", "version": "1.2"}, True),
        ("deploy(staging *)", {"env": "staging"}, True),
        ("deploy(staging *)", {"env": "staging x"}, False),
        ("deploy(staging *)", {"env": "prod", "version": "staging"}, False),
        ("deploy(staging 1.*)", {"env": "staging", "note": "1.2"}, False),
        ("deploy(staging '' 1.*)", {"env": "staging", "note": "1.2"}, True),
        ("bash(rm *)", {"env": "staging"}, False),
    ],
)
def test_rules_are_matched_against_the_arguments_in_their_order(
    box: Box, rule: str, arguments: dict[str, str], allowed: bool
) -> None:
    policy = Policy(rules=(Rule.parse(rule, "auto"),))
    verdict = policy.check("deploy", key(box.tool(RULED), **arguments), "prompt", "anything")
    assert (verdict.permission == "auto") is allowed


@pytest.mark.parametrize("permission", ["deny", "prompt"])
def test_a_rule_against_the_program_holds_although_another_tool_runs_it(
    box: Box, permission: str
) -> None:
    rules = (Rule.parse("bash(rm *)", permission), Rule.parse("deploy", "auto"))  # type: ignore[arg-type]  # one of them
    for text in (
        RULED,
        HEAD + "parameters: [{name: env}]\ncommand: ls && sudo rm '{{args.env}}'\n",
    ):
        found = key(box.tool(text), env="x")
        assert (
            Policy(rules=rules).check("deploy", found, "prompt", "anything").permission
            == permission
        )


def test_a_rule_is_proposed_for_exactly_this_call(box: Box) -> None:
    tool = box.tool(RULED)
    args = parse_arguments(tool, '{"env": "staging", "version": "1.2"}')
    assert tool.proposal(args) == "deploy(staging 1.2)"  # type: ignore[arg-type]  # its own
    args = parse_arguments(tool, '{"env": "a\\nb"}')
    assert tool.proposal(args) == ""  # type: ignore[arg-type]  # its own


def test_only_the_users_own_file_may_allow_itself(box: Box) -> None:
    text = HEAD + "argv: [p]\napproval: auto\n"
    assert box.tool(text, "user").permission == "auto"
    loaded = box.load(text)
    assert loaded.tools[0].permission == "prompt"
    assert [str(one) for one in loaded.problems] == [
        "t.yaml:4: approval: a project's file cannot allow its own tools; "
        "a rule of yours, or the file in your own folder, can"
    ]


@for_each(
    ("said", "tries"),
    [
        ("argv: [p]", False),
        ("argv: [p]\napproval: prompt", False),
        ("argv: [p]\napproval: effects", True),
        ("builtin: bash", True),
        ("builtin: bash\napproval: effects", True),
        ("builtin: bash\napproval: prompt", False),
    ],
)
def test_a_tool_is_tried_out_if_its_file_or_the_tool_that_it_narrows_says_so(
    box: Box, said: str, *, tries: bool
) -> None:
    for place in ("project", "user"):
        loaded = box.load(f"{HEAD}{said}\n", place)
        [tool] = loaded.tools
        assert (tool.tries, tool.permission) == (tries, "prompt")
        assert {problem.level for problem in loaded.problems} <= {"warning"}


PATHS = HEAD + (
    "parameters: [{name: p, type: path}]\nargv: [wc, '{{args.p}}']\nrestrictions: {paths: {read: ['docs/**']}}\n"
)


@pytest.mark.parametrize("path", ["docs/a.md", "docs/sub/b", "./docs/../docs/a.md", "docs"])
async def test_a_path_within_its_globs_is_taken_as_it_was_given(box: Box, path: str) -> None:
    put(box.root, "docs/a.md", "x")
    put(box.root, "docs/sub/b", "x")
    assert await box.script(PATHS, p=path) == f"exec -- wc {path}"


@pytest.mark.parametrize(
    "path", ["secret", "docs/../secret", "/etc/passwd", "../x", "docs/link", "docs/out"]
)
async def test_a_path_beyond_them_is_denied_also_through_a_link(box: Box, path: str) -> None:
    put(box.root, "secret", "x")
    put(box.root, "docs/a.md", "x")
    (box.root / "docs/link").symlink_to("../secret")
    (box.root / "docs/out").symlink_to("/etc/passwd")
    with pytest.raises(Denied):
        await box.script(PATHS, p=path)


@pytest.mark.parametrize(
    "written", ["{paths: ['docs/**']}", "['docs/**']"], ids=["paths as a list", "a plain list"]
)
@pytest.mark.parametrize("access", ["", ", access: read", ", access: write"])
async def test_a_list_of_globs_holds_for_reading_and_for_changing(
    box: Box, written: str, access: str
) -> None:
    text = (
        HEAD
        + f"parameters: [{{name: p, type: path{access}}}]\nargv: [wc, '{{{{args.p}}}}']\nrestrictions: {written}\n"
    )
    put(box.root, "docs/a.md", "x")
    assert await box.script(text, p="docs/a.md") == "exec -- wc docs/a.md"
    with pytest.raises(Denied):
        await box.script(text, p="secret")
    assert box.tool(text).restricted == {"paths.read": ("docs/**",), "paths.write": ("docs/**",)}


async def test_without_globs_a_path_still_stays_in_the_workspace(box: Box) -> None:
    text = HEAD + "parameters: [{name: p, type: path}]\nargv: [wc, '{{args.p}}']\n"
    assert await box.script(text, p="any/where") == "exec -- wc any/where"
    with pytest.raises(Denied, match="outside"):
        await box.script(text, p="../x")


async def test_what_a_path_is_for_chooses_the_globs(box: Box) -> None:
    text = HEAD + (
        "parameters: [{name: from, type: path, access: read}, {name: to, type: path, access: write}]\n"
        "argv: [cp, '{{args.from}}', '{{args.to}}']\nrestrictions: {paths: {read: ['src/**'], write: ['out/**']}}\n"
    )
    assert await box.script(text, **{"from": "src/a", "to": "out/a"}) == "exec -- cp src/a out/a"
    with pytest.raises(
        Denied, match=r"argument 'to' is 'src/b'; this tool may write only out/\*\*"
    ):
        await box.script(text, **{"from": "src/a", "to": "src/b"})


async def test_sub_commands_that_a_value_chooses_are_held_against_the_list(box: Box) -> None:
    text = HEAD + (
        "parameters: [{name: sub}]\nargv: [git, '{{args.sub}}']\nrestrictions: {commands: [git log, git status]}\n"
    )
    assert await box.script(text, sub="log") == "exec -- git log"
    with pytest.raises(Denied, match="this tool may not run 'git push', only git log, git status"):
        await box.script(text, sub="push")


class TestBuiltin:
    """A built-in tool under another name."""

    async def test_it_does_the_same_with_what_is_set(self, box: Box) -> None:
        put(box.root, "a.txt", "1\n2\n3\n")
        tool = box.tool(
            "name: peek\nbuiltin: read\nparameters: [{name: path}, {name: limit, value: 2}]\n"
        )
        assert "3" not in text_of((await box.call(tool, path="a.txt")).content).splitlines()[
            -1
        ].split("\t")
        assert (tool.permission, tool.effect, tool.label) == ("auto", "nothing", "peek")
        with pytest.raises(InvalidArgs, match="Unknown argument 'limit' for tool 'peek'"):
            await box.call(tool, path="a.txt", limit=5)

    async def test_its_arguments_can_be_narrowed(self, box: Box) -> None:
        tool = box.tool(
            "name: peek\nbuiltin: read\nparameters:\n- {name: path, schema: {pattern: '^a'}}\n"
            "- {name: limit, schema: {maximum: 5}, default: 1}\n"
        )
        with pytest.raises(InvalidArgs) as caught:
            await box.call(tool, path="b", limit=9)
        said = str(caught.value)
        assert (
            "Argument 'path' for tool 'peek' should match the pattern '^a'; got a string 'b'"
            in said
        )
        assert (
            "Argument 'limit' for tool 'peek' should be less than or equal to 5; got a number '9'"
            in said
        )

    async def test_its_paths_are_restricted_with_links_followed(self, box: Box) -> None:
        put(box.root, "docs/a", "x")
        put(box.root, "b", "x")
        (box.root / "docs/l").symlink_to("../b")
        tool = box.tool("name: peek\nbuiltin: read\nrestrictions: {paths: {read: ['docs/**']}}\n")
        assert "x" in text_of((await box.call(tool, path="docs/a")).content)
        for path in ("b", "docs/l", "../x"):
            with pytest.raises(Denied):
                await box.call(tool, path=path)

    @pytest.mark.parametrize("inner", ["read", "write"])
    async def test_a_list_of_globs_holds_for_whatever_it_does_with_its_path(
        self, box: Box, inner: str
    ) -> None:
        put(box.root, "docs/a", "x")
        tool = box.tool(f"name: peek\nbuiltin: {inner}\nrestrictions: ['docs/**']\n")
        arguments = {} if inner == "read" else {"content": "y"}
        await box.call(tool, path="docs/new" if inner == "write" else "docs/a", **arguments)
        with pytest.raises(Denied):
            await box.call(tool, path="b", **arguments)

    async def test_its_commands_are_restricted_by_what_the_line_runs(self, box: Box) -> None:
        tool = box.tool("name: gitlog\nbuiltin: bash\nrestrictions: {commands: [git log, head]}\n")
        await box.call(tool, command="git log -3 | head -1")
        for command in (
            "git push",
            "git log; rm x",
            "git log $(rm x)",
            "env git push",
            "git log > x",
        ):
            with pytest.raises(Denied):
                await box.call(tool, command=command)

    def test_rules_about_the_inner_tool_that_deny_hold_and_those_that_allow_do_not(
        self, box: Box
    ) -> None:
        tool = box.tool("name: save\nbuiltin: write\n")
        found = key(tool, path="a.txt", content="x")

        def verdict(rule: str, permission: str) -> str:
            rules = (Rule.parse(rule, permission),)  # type: ignore[arg-type]  # one of them
            return Policy(rules=rules).check("save", found, tool.permission, tool.effect).permission

        assert verdict("write(*.txt)", "deny") == "deny"
        assert verdict("write(*.txt)", "auto") == "prompt"
        assert verdict("save(*.txt)", "auto") == "auto"

    async def test_arguments_that_do_not_fit_together_are_a_result(self, box: Box) -> None:
        tool = box.tool("name: run\nbuiltin: bash\nparameters: [{name: command}]\n")
        with pytest.raises(
            InvalidArgs,
            match="the arguments are not valid for bash: command: Value error, the command is empty",
        ):
            await box.call(tool, command=" ")
        assert key(tool, command=" ").opaque
