"""Takes a shell command line apart, so that rules can be matched against each command in it."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from codeagent.core.policy import ApprovalKey
from codeagent.tools.reading.judge import judge
from codeagent.tools.reading.words import strict_commands

_PARSER = Parser(Language(tree_sitter_bash.language()))
_MOST_NODES = 100
_DEEPEST = 3
_LONGEST_PARSED = 32_000
"""Characters; parsing takes more than linear time, and so long a line is asked about in any case."""
_PLAIN = frozenset({
    "program", "list", "pipeline", "command", "command_name", "word", "number", "string", "string_content",
    "raw_string", "concatenation", "redirected_statement", "file_redirect", "file_descriptor", "subshell",
    "compound_statement", "if_statement", "elif_clause", "else_clause", "while_statement", "for_statement",
    "variable_name", "do_group", "negated_command", "comment",
})  # fmt: skip
"""Node types whose commands are all there is to them; anything else makes the line opaque."""
_COMMANDS = frozenset({
    "command", "declaration_command", "unset_command", "test_command", "variable_assignment", "variable_assignments",
})  # fmt: skip
_TESTS = frozenset(
    {"test_command", "unary_expression", "binary_expression", "test_operator", "parenthesized_expression"}
)
"""What `[` is parsed into."""
_WRITES_NOWHERE = re.compile(r"\d*(?:>|>>|&>|>\|)\s*/dev/null|\d*>&\d|\d*<.*", re.DOTALL)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_TRICKY_CHARACTERS = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]")
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_SEPARATORS = re.compile(r"[;&|\n(){}`]+|\$\(")
_QUOTING = re.compile(r"['\"\\]")
_SYSTEM_FOLDER = re.compile(r"/(?:usr/(?:local/)?)?s?bin/")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_WRAPPERS = frozenset({
    "sudo", "env", "nice", "nohup", "time", "timeout", "watch", "xargs", "command", "builtin", "exec", "setsid",
    "stdbuf", "ionice", "chroot", "doas", "unbuffer", "busybox", "chrt", "taskset", "unshare", "strace", "ltrace",
})  # fmt: skip
_RUN_OTHERS = _WRAPPERS | _SHELLS | {"eval"}
_MOST_WRAPPERS = 10
"""One in another that are listed each; of more, the innermost command is."""
_WRAPPER_ARGUMENT = re.compile(r"-.*|[A-Za-z_]\w*=.*|\d+(?:\.\d+)?[smhd]?", re.DOTALL)


@lru_cache(maxsize=64)
def command_key(text: str) -> ApprovalKey:
    """Every simple command of the line as one part: its words with single spaces between.

    `opaque` where the parts may not be all that runs, or not under that name: substitutions,
    expansions, here-documents, functions, assignments, `eval`, writing redirections, a quoted
    command name, a parse error, more than 100 nodes. The parts are listed all the same, so that
    denying rules see what is there.

    `reads_only` where nothing is opaque, a second, strict reading sees the same commands, and each of them is known to
    only read; `reading` are the parts of which that is known. `sensitive` where one would read a file of secrets.
    """
    line = _take_apart(text, _DEEPEST)
    parts = tuple(dict.fromkeys(part for command in line.commands for part in command.parts))
    strict = strict_commands(text) if line.clear else None
    seen = [(_bare_name(command.texts[0]), *command.texts[1:]) for command in strict or ()]
    agreed = bool(seen) and seen == [tuple(command.words) for command in line.commands]
    opaque = not line.clear or (line.has_tests and not agreed)
    key = ApprovalKey(kind="command", parts=parts + line.pieces or (text,), opaque=opaque)
    if not agreed or strict is None:
        return key
    judged = [judge(command) for command in strict]
    others = {part for one, its in zip(line.commands, judged, strict=True) if not its.reads for part in one.parts}
    return replace(
        key,
        sensitive=next((its.secret for its in judged if its.secret), None),
        reads_only=not others,
        reading=frozenset(parts) - others,
    )


@dataclass(frozen=True)
class _Command:
    words: list[str]
    parts: list[str]
    """Its own, and those of the commands it wraps."""
    plain: bool
    """Nothing about it is hidden."""


@dataclass(frozen=True)
class _Line:
    commands: list[_Command]
    clear: bool
    """These are certainly all."""
    has_tests: bool = False
    """There is a `[`, which is only clear where the strict reading agrees."""
    pieces: tuple[str, ...] = ()
    """What could not be parsed, cut at every separator."""

    @property
    def parts(self) -> list[str]:
        return [*(part for command in self.commands for part in command.parts), *self.pieces]


def _take_apart(text: str, depth: int) -> _Line:
    if len(text) > _LONGEST_PARSED:
        return _Line([], clear=False, pieces=_pieces(text))
    root = _parse(text)
    clear = not root.has_error and _TRICKY_CHARACTERS.search(text) is None
    has_tests = False
    commands: list[_Command] = []
    redirects: dict[int, list[Node]] = {}
    count = 0
    for node in _nodes(root):
        count += 1
        kind = node.type
        has_tests = has_tests or kind in _TESTS
        if kind not in _PLAIN | _TESTS or _is_tricky(kind, _text(node, text)):
            clear = False
        if kind == "file_redirect" and _WRITES_NOWHERE.fullmatch(_text(node, text)) is None:
            clear = False
        if kind == "redirected_statement" and (command := _redirected(node)) is not None:
            redirects.setdefault(command.id, []).extend(node.children_by_field_name("redirect"))
        if kind in _COMMANDS:
            commands.append(_command(node, redirects.pop(node.id, []), text, depth))
            clear = clear and commands[-1].plain
    return _Line(commands, clear and count <= _MOST_NODES, has_tests, _pieces(text) if root.has_error else ())


def _pieces(text: str) -> tuple[str, ...]:
    """What a denying rule should see of a line that cannot be parsed: cut at every separator, also unquoted."""
    parts: list[str] = []
    for piece in _SEPARATORS.split(text):
        words = piece.split()
        bare = _QUOTING.sub("", piece).split()
        if not words:
            continue
        parts += [" ".join(words), " ".join(bare)]
        bare = bare[_behind_arguments(bare, 0) :]
        if bare:
            parts += [_joined(bare), *_unwrapped(bare, _RUN_OTHERS)[0]]
    return tuple(dict.fromkeys(part for part in parts if part))


def _nodes(root: Node) -> Iterator[Node]:
    """Every named node, without recursion: the nesting is the attacker's to choose."""
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and node.is_named:
            yield node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _command(node: Node, outer: list[Node], line: str, depth: int) -> _Command:
    """`outer` are the redirections of the statement around it, `line` is what was parsed."""
    text = _text(node, line)
    if node.type == "test_command" and not text.startswith("[["):
        return _Command(text.split(), [" ".join(text.split())], plain=True)
    words = [_value(child, line) for child in node.named_children if child.type not in ("file_redirect", "comment")]
    name_node = node.child_by_field_name("name")
    plain = node.type == "command" and name_node is not None and _text(name_node, line) == _value(name_node, line)
    redirects = [child for child in node.named_children if child.type == "file_redirect"] + outer
    if not words or node.type != "command":
        return _Command(words, [" ".join(text.split())], plain=False)
    words[0] = _SYSTEM_FOLDER.sub("", words[0]) if _SYSTEM_FOLDER.match(words[0]) else words[0]
    plain = plain and not re.search(r"[*?\[\]~\\\s]", words[0])
    part = " ".join([*map(_quoted, words), *(" ".join(_text(redirect, line).split()) for redirect in redirects)])
    inner, inner_plain = _wrapped(words, depth)
    return _Command(words, [part, *inner], plain and inner_plain)


def _redirected(statement: Node) -> Node | None:
    """The command a redirection is for: of a pipeline or list, the last one."""
    body = statement.child_by_field_name("body")
    while body is not None and body.type in ("pipeline", "list"):
        body = body.named_child(body.named_child_count - 1)
    return body


def _wrapped(words: list[str], depth: int) -> tuple[list[str], bool]:
    """What a command runs that is given to it as words or as a string, and whether that is all plain to see."""
    parts, at, plain = _unwrapped(words, _WRAPPERS)
    if at >= len(words):
        return parts, plain
    scripts, script_plain = _scripts(_bare_name(words[at]), words[at + 1 :], depth)
    return [*parts, *scripts], plain and script_plain


def _unwrapped(words: list[str], through: frozenset[str]) -> tuple[list[str], int, bool]:
    """What is behind one wrapper after another, where the innermost command begins, and whether that is certain.

    A wrapper's flag may have a value: then what is behind the value is listed, too.
    """
    parts: list[str] = []
    at, count, plain = 0, 0, True
    starts: list[int] = []
    while at < len(words) and _bare_name(words[at]) in through:
        count += 1
        inner = _behind_arguments(words, at + 1)
        plain = plain and not any("=" in word for word in words[at + 1 : inner])
        behind_value = inner
        if inner > at + 1 and words[inner - 1].startswith("-"):
            behind_value = _behind_arguments(words, inner + 1)
        starts = [start for start in sorted({inner, behind_value}) if start < len(words)]
        if count <= _MOST_WRAPPERS:
            parts += [_joined(words[start:]) for start in starts]
        at = inner if inner < len(words) and _bare_name(words[inner]) in _RUN_OTHERS else behind_value
    if count > _MOST_WRAPPERS:
        parts += [_joined(words[start:]) for start in starts]
    return parts, at, plain and count <= _MOST_WRAPPERS


def _behind_arguments(words: list[str], at: int) -> int:
    """Where a wrapper's flags, assignments and durations end."""
    while at < len(words) and _WRAPPER_ARGUMENT.fullmatch(words[at]):
        at += 1
    return at


def _bare_name(word: str) -> str:
    return _SYSTEM_FOLDER.sub("", word)


def _scripts(name: str, rest: list[str], depth: int) -> tuple[list[str], bool]:
    """The commands in what a shell is given as text. Which of its words that is depends on flags it may not know."""
    scripts: list[str] = []
    if name == "eval":
        scripts = [" ".join(rest)]
    elif name in _SHELLS and any(re.fullmatch(r"-\w*c\w*", word) for word in rest):
        scripts = [word for word in rest if not word.startswith("-")][:_DEEPEST]
    if not scripts:
        return [], name not in ("eval", "source", ".", "alias")
    if depth <= 0:
        return [part for script in scripts for part in (script, *_pieces(script))], False
    return [part for script in scripts for part in _take_apart(script, depth - 1).parts], False


def _parse(line: str) -> Node:
    """The tree of the line, each character one byte of it.

    The grammar's scanner reads beyond its tables for some characters that are not ASCII, and takes the process with
    it. To a shell all of them are letters, so letters stand in their place.
    """
    return _PARSER.parse(_NOT_ASCII.sub("x", line).encode()).root_node


def _text(node: Node, line: str) -> str:
    """What the node stands for in the line that was parsed."""
    return line[node.start_byte : node.end_byte]


def _value(node: Node, line: str) -> str:
    """The word a node stands for, as the shell would see it where nothing is expanded."""
    text = _text(node, line)
    match node.type:
        case "raw_string":
            return text[1:-1]
        case "string":
            return re.sub(r'\\([$`"\\\n])', r"\1", text[1:-1])
        case "word":
            return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        case "command_name" | "concatenation":
            return "".join(_value(child, line) for child in node.named_children)
        case _:
            return text


def _joined(words: list[str]) -> str:
    """As a part: its words with single spaces between."""
    return " ".join(map(_quoted, [_bare_name(words[0]), *words[1:]]))


def _quoted(word: str) -> str:
    return shlex.quote(word) if not word or re.search(r"\s", word) else word


def _is_tricky(kind: str, text: str) -> bool:
    """A brace expansion, or a quoted substitution that some commands evaluate all the same."""
    if kind in ("word", "concatenation"):
        return _BRACES.search(text) is not None
    return kind == "raw_string" and ("$(" in text or "`" in text)
