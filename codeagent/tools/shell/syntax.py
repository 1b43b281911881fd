"""Parses a shell command line, so that rules can be matched against each command in it."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from tree_sitter import Node

from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import HOLE, SYSTEM_FOLDER
from codeagent.core.policy import ApprovalKey
from codeagent.tools.shell.carriers import NO_FEED, Feed
from codeagent.tools.shell.programs import word_set
from codeagent.tools.shell.read_only import equivalent_read, judge
from codeagent.tools.shell.runs import PossibleRuns, is_plain
from codeagent.tools.shell.settings import assigned, assigned_by, chooses
from codeagent.tools.shell.strict import strict_commands
from codeagent.tools.shell.tree import BRACES, nodes_of, parsed, source_of, word_of

_MOST_NODES = 100
LONGEST_PARSED = 32_000
"""Characters; parsing takes more than linear time, and a longer line always needs approval."""
_PLAIN = word_set("""
    program list pipeline command command_name word number string string_content raw_string
    concatenation redirected_statement file_redirect file_descriptor subshell compound_statement
    if_statement elif_clause else_clause while_statement for_statement variable_name do_group
    negated_command comment
""")
"""Node types that consist only of their commands; all others make the line opaque."""
_REDIRECTS = word_set("file_redirect herestring_redirect heredoc_redirect")
_NO_WORDS = _REDIRECTS | {"comment", "variable_assignment"}
_COMMANDS = word_set("""
    command declaration_command unset_command test_command variable_assignment variable_assignments
""")
_TESTS = word_set("""
    test_command unary_expression binary_expression test_operator parenthesized_expression
""")
"""The node types of `[`."""
_WRITES_NOWHERE = re.compile(r"\d*(?:>|>>|&>|>\|)\s*/dev/null|\d*>&\d|\d*<.*", re.DOTALL)
_TRICKY_CHARACTERS = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]")
_SEPARATORS = re.compile(r"[;&|\n(){}`]+|\$\(")
_QUOTING = re.compile(r"['\"\\]")
_CONNECTS = re.compile(r"/dev/(?:tcp|udp)(?=/)")
_CLOSES = re.compile(r"\d*[<>]&-")
_NAMED = re.compile(r"\{[A-Za-z_]\w*\}")
_PIPE = re.compile(r"(?<!\|)\|(?!\|)")
_CALLED_LATER = re.compile(r"\(\s*\)|\b(?:function|coproc|alias|trap)\b")
"""Matches if a command may run elsewhere than where it is written."""
_FROM_A_FILE = re.compile(r"(?<!<)<(?![<&(]|\s*/dev/null\b)")
_UNQUOTED_TEXT = re.compile(r"<<<|<<-?\s*(?!['\"\\\s])")
_MOST_SCRIPTS = 200
"""The most nested command lines that are parsed; beyond that, the line is opaque."""


@lru_cache(maxsize=64)
def command_key(text: str) -> ApprovalKey:
    """Return the simple commands of the line, each as one part: its words with single spaces in
    between.

    It is `opaque` if other commands may run, or run under another name: substitutions, expansions,
    here-documents, functions, assignments, `eval`, writing redirections, a quoted command name, a
    parse error, more than 100 nodes. `runs`, `perhaps` and `unseen` are for rules that deny or ask:
    what else runs, may run, or cannot be seen.

    It `reads` freely if it is not opaque, a second, strict reading sees the same commands, and
    each is known to only read; `reading` are the parts known to do so. It is `sensitive` if one of
    them would read a file of secrets.
    """
    line = _take_apart(text)
    strict = strict_commands(text) if line.clear else None
    seen = [(_bare_name(command.texts[0]), *command.texts[1:]) for command in strict or ()]
    agreed = bool(seen) and seen == [tuple(command.words) for command in line.commands]
    judged = [judge(command) for command in strict] if agreed and strict is not None else []
    found = _Finder()
    within = found.line(text, line, [its.reads for its in judged])
    parts = [(command.part, *inner) for command, inner in zip(line.commands, within, strict=True)]
    every = tuple(
        dict.fromkeys([*(part for its in parts for part in its), *line.pieces, *found.parts])
    )
    key = ApprovalKey(
        kind="command",
        parts=every or (text,),
        opaque=not line.clear
        or (line.has_tests and not agreed)
        or found.hides
        or not all(map(is_plain, within)),
        runs=tuple(found.runs.spellings),
        perhaps=tuple(found.runs.perhaps),
        unseen="what it runs cannot be seen whole" if found.runs.unseen else found.carried,
    )
    if not judged or strict is None or key.opaque:
        return key
    if line.expands and not all(one.reads for one in judged):
        return replace(key, opaque=True)
    reading = [
        (command, one.opened) for command, one in zip(strict, judged, strict=True) if one.reads
    ]
    key = replace(key, does=(equivalent_read(reading),)) if reading else key
    others = {part for its, one in zip(parts, judged, strict=True) if not one.reads for part in its}
    return replace(
        key,
        sensitive=next((its.secret for its in judged if its.secret), None),
        reads="no" if others else "freely",
        reading=frozenset(every) - others,
    )


@dataclass(frozen=True)
class _Command:
    words: list[str]
    holed: list[str]
    """The same words, with `HOLE` for what the shell inserts."""
    part: str
    plain: bool
    """Whether nothing about it is hidden."""
    start: int = 0
    """Where it begins in the line."""


@dataclass(frozen=True)
class _ParsedLine:
    commands: list[_Command]
    clear: bool
    """Whether these are certainly all commands."""
    has_tests: bool = False
    """Whether there is a `[` or `$NAME`, which is clear only if the strict reading agrees."""
    expands: bool = False
    """Whether there is a `$NAME`."""
    pieces: tuple[str, ...] = ()
    """Text that could not be parsed, cut at every separator."""
    texts: tuple[str, ...] = ()
    """Assigned values, and quoted texts that some commands evaluate."""
    settings: tuple[tuple[str, str], ...] = ()
    """Variables that are assigned, with their values."""


class _Finder:
    """Collects what a line runs, including command lines that its commands get as text."""

    def __init__(self) -> None:
        self.runs = PossibleRuns(self._script)
        self.parts: list[str] = []
        """Of the command lines within."""
        self._scripts: set[str] = set()

    @property
    def hides(self) -> bool:
        """Whether there is more than the simple commands of the line itself."""
        return self.runs.unseen or bool(self._scripts)

    @property
    def carried(self) -> str:
        """Why the line may run anything although its commands are known, as a phrase; empty if it
        may not."""
        return f"{self.runs.carried} can run other commands" if self.runs.carried else ""

    def line(self, text: str, line: _ParsedLine, reads: Sequence[bool]) -> list[list[str]]:
        """Add a line and return the commands within each of its commands; `reads` is empty if
        nothing is known."""
        feeds = _feeds(text, [command.start for command in line.commands])
        within = [
            self.runs.command(
                command.words, command.holed, text, fed=feeds[command.start], reads=known
            )
            for command, known in zip(
                line.commands, reads or [False] * len(line.commands), strict=True
            )
        ]
        for said in line.texts:
            self.runs.mention(said)
        for name, value in line.settings:
            self.runs.carry(f"{name}=" if chooses(name, value) else "")
        if not reads:
            self.runs.carry(found[0] if (found := _CONNECTS.search(text)) else "")
            self._by_its_letters(text, certain=bool(line.pieces))
        if _TRICKY_CHARACTERS.search(text) or line.pieces:
            self.runs.unseen = True
        if "\\\n" in text:
            joined = text.replace("\\\n", "")
            self.line(joined, _take_apart(joined), ())
        return within

    def _by_its_letters(self, text: str, *, certain: bool) -> None:
        """Add the line cut at everything that could separate commands, in case its quoting was
        misunderstood."""
        for piece in dict.fromkeys(_SEPARATORS.split(text)):
            words = _QUOTING.sub("", piece).split()
            if words and certain:
                self.runs.command(words, words, text, fed=Feed(text, hidden=True))
            elif words:
                self.runs.may_run(words)

    def _script(self, text: str) -> None:
        if text in self._scripts:
            return
        self._scripts.add(text)
        if len(self._scripts) > _MOST_SCRIPTS:
            self.runs.unseen = True
            return
        line = _take_apart(text)
        within = self.line(text, line, ())
        self.parts += [
            *(command.part for command in line.commands),
            *(part for its in within for part in its),
        ]


def _take_apart(text: str) -> _ParsedLine:
    if len(text) > LONGEST_PARSED:
        return _ParsedLine([], clear=False, pieces=_pieces(text))
    root = parsed(text)
    clear = not root.has_error and _TRICKY_CHARACTERS.search(text) is None
    has_tests = expands = False
    commands: list[_Command] = []
    texts: list[str] = []
    settings: list[tuple[str, str]] = []
    redirects: dict[int, list[Node]] = {}
    count = 0
    for node in nodes_of(root):
        if not node.is_named:
            continue
        count += 1
        kind = node.type
        expands = expands or kind == "simple_expansion"
        has_tests = has_tests or expands or kind in _TESTS
        said = source_of(node, text)
        # A brace expansion, or a quoted substitution that some commands still evaluate.
        evaluated = kind == "raw_string" and ("$(" in said or "`" in said)
        tricky = evaluated or (
            kind in ("word", "concatenation") and BRACES.search(said) is not None
        )
        if kind not in _PLAIN | _TESTS | {"simple_expansion"} or tricky:
            clear = False
        if kind == "variable_assignment" or evaluated:
            texts.append(said)
        settings += _settings(node, said, text)
        if kind == "file_redirect" and _WRITES_NOWHERE.fullmatch(said) is None:
            clear = False
        if kind == "redirected_statement" and (command := _redirected(node)) is not None:
            redirects.setdefault(command.id, []).extend(node.children_by_field_name("redirect"))
        if kind == "redirected_statement" and node.child_by_field_name("body") is None:
            commands += _without_name(node, text)
        if kind in _COMMANDS:
            commands.append(_command(node, redirects.pop(node.id, []), text))
            clear = clear and commands[-1].plain
    pieces = _pieces(text) if root.has_error else ()
    return _ParsedLine(
        commands,
        clear and count <= _MOST_NODES,
        has_tests=has_tests,
        expands=expands,
        pieces=pieces,
        texts=tuple(texts),
        settings=tuple(settings),
    )


def _pieces(text: str) -> tuple[str, ...]:
    """Return what deny rules see of a line that cannot be parsed: its pieces, cut at every
    separator."""
    cut = [piece.split() for piece in _SEPARATORS.split(text)]
    return tuple(dict.fromkeys(" ".join(words) for words in cut if words)) or (text,)


def _command(node: Node, outer: list[Node], line: str) -> _Command:
    """Return a command; `outer` are the redirections of the statement around it, `line` is the
    parsed text."""
    text = source_of(node, line)
    whole = " ".join(text.split())
    if node.type != "command":
        return _Command(
            text.split(),
            text.split(),
            whole,
            plain=node.type == "test_command",
            start=node.start_byte,
        )
    redirects = [*(child for child in node.named_children if child.type in _REDIRECTS), *outer]
    own = [
        child
        for child in node.named_children
        if child.type not in _NO_WORDS and not _names_redirect(child, line)
    ]
    children = [*own, *(word for redirect in redirects for word in _words_behind(redirect, line))]
    name_node = node.child_by_field_name("name")
    if not children or name_node is None:
        return _Command([], [], whole, plain=False, start=node.start_byte)
    words = [word_of(child, line) for child in children]
    holed = [word_of(child, line, holes=True) for child in children]
    words[0] = _bare_name(words[0])
    plain = source_of(name_node, line) in (words[0], word_of(name_node, line)) and not re.search(
        r"[*?\[\]~\\\s]", words[0]
    )
    prefix = [
        source_of(child, line)
        for child in node.named_children
        if child.type == "variable_assignment"
    ]
    quoted = [shlex.quote(word) if not word or re.search(r"\s", word) else word for word in words]
    part = " ".join([*prefix, *quoted, *(_said(one, line) for one in redirects)])
    return _Command(words, holed, part, plain and not prefix, node.start_byte)


def _without_name(statement: Node, line: str) -> list[_Command]:
    """Return the command whose words the grammar counts to its redirections, up to its name; none
    if it has none."""
    children = [
        word for redirect in statement.named_children for word in _words_behind(redirect, line)
    ]
    if not children:
        return []
    words = [word_of(child, line) for child in children]
    holed = [word_of(child, line, holes=True) for child in children]
    return [
        _Command(
            words,
            holed,
            " ".join(source_of(statement, line).split()),
            plain=False,
            start=statement.start_byte,
        )
    ]


def _settings(node: Node, said: str, line: str) -> Iterator[tuple[str, str]]:
    """Yield the variables that a node sets, with `HOLE` for what is not known of their values."""
    match node.type:
        case "variable_assignment":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            if name is not None:
                yield (
                    source_of(name, line),
                    "" if value is None else word_of(value, line, holes=True),
                )
        case "for_statement" if (name := node.child_by_field_name("variable")) is not None:
            yield source_of(name, line), HOLE
        case "declaration_command":
            yield from assigned(said)
        case "command":
            yield from assigned_by(said)
        case "file_redirect":
            for word in _words_behind(node, line):
                yield from assigned(source_of(word, line))
        case _:
            return


def _feeds(line: str, starts: Sequence[int]) -> dict[int, Feed]:
    """Return what the line may give to the input of the commands that begin at these places."""
    if not any(letter in line for letter in "|<>"):
        return dict.fromkeys(starts, NO_FEED)
    called = _CALLED_LATER.search(line) is not None
    hidden = _FROM_A_FILE.search(line) is not None or (
        _UNQUOTED_TEXT.search(line) is not None and "$" in line
    )
    pipe = _PIPE.search(line)
    return {
        start: Feed(
            line,
            hidden=hidden
            or "<" not in line
            or (pipe is not None and (called or pipe.start() < start)),
        )
        for start in starts
    }


def _words_behind(redirect: Node, line: str) -> list[Node]:
    """Return the words of the command that follow a redirection, which the grammar counts to it."""
    if redirect.type == "heredoc_redirect":
        within = redirect.children_by_field_name("redirect")
        nested = [word for one in within for word in _words_behind(one, line)]
        return [*redirect.children_by_field_name("argument"), *nested]
    closes = _CLOSES.match(source_of(redirect, line)) is not None
    return redirect.children_by_field_name("destination")[0 if closes else 1 :]


def _names_redirect(word: Node, line: str) -> bool:
    """Whether the word is the `{name}` of a redirection."""
    return (
        line[word.end_byte : word.end_byte + 1] in ("<", ">")
        and _NAMED.fullmatch(source_of(word, line)) is not None
    )


def _said(redirect: Node, line: str) -> str:
    """Return a redirection without the words that follow it."""
    behind = _words_behind(redirect, line) if redirect.type == "file_redirect" else []
    end = behind[0].start_byte if behind else redirect.end_byte
    return " ".join(line[redirect.start_byte : end].split())


def _redirected(statement: Node) -> Node | None:
    """Return the command that a redirection is for: in a pipeline or list, the last one."""
    body = statement.child_by_field_name("body")
    while body is not None and body.type in ("pipeline", "list", "negated_command"):
        body = body.named_child(body.named_child_count - 1)
    return body


def _bare_name(word: str) -> str:
    return SYSTEM_FOLDER.sub("", word)
