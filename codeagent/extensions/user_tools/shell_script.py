"""Finds everything in a script that would run or split a value.

In what bash gets, a placeholder is a reference to a variable, so there is one rule: everything
around a variable that may hold a value must be known to keep it in one piece.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tree_sitter import Node

from codeagent.core.patterns import HOLE
from codeagent.core.sanitize import one_line
from codeagent.extensions.user_tools.evaluation import (
    NUMBER_TESTS,
    PLAIN_TESTS,
    TESTS_EVALUATE,
    TemplateWord,
    is_behind_dashes,
    is_plain_test,
    refusals,
    warning_about,
)
from codeagent.tools.shell.syntax import LONGEST_PARSED
from codeagent.tools.shell.tree import NOT_ASCII, nodes_of, parsed

Span = tuple[int, int]
"""Characters of the script: the first, and the one after the last."""

_KEEPS = frozenset(
    {
        "program",
        "list",
        "pipeline",
        "redirected_statement",
        "subshell",
        "if_statement",
        "elif_clause",
        "else_clause",
        "while_statement",
        "do_group",
        "negated_command",
        "concatenation",
        "string",
        "command_substitution",
        "expansion",
        "process_substitution",
        "heredoc_body",
        "heredoc_redirect",
        "binary_expression",
        "unary_expression",
        "parenthesized_expression",
        "case_statement",
        "case_item",
        "compound_statement",
        "variable_assignments",
        "command",
        "command_name",
        "test_command",
        "herestring_redirect",
        "declaration_command",
        "unset_command",
        "array",
        "variable_assignment",
        "for_statement",
        "file_redirect",
        "function_definition",
    }
)
"""Nodes that may contain a value; what some of them run is checked separately."""
_UNSPLIT = frozenset(
    {
        "string",
        "translated_string",
        "variable_assignment",
        "test_command",
        "binary_expression",
        "unary_expression",
        "heredoc_body",
        "herestring_redirect",
        "case_statement",
        "case_item",
        "expansion",
        "arithmetic_expansion",
    }
)
"""Nodes in which a variable stays one word without quotes; a test only if it is in `[[ … ]]`."""
_TESTS = frozenset(
    {"test_command", "binary_expression", "unary_expression", "parenthesized_expression"}
)
_BETWEEN_TESTS = frozenset({"[", "[[", "]", "]]", "(", ")", "&&", "||", "regex"})
_EXPANSIONS = frozenset(
    {
        "simple_expansion",
        "expansion",
        "command_substitution",
        "arithmetic_expansion",
        "process_substitution",
    }
)
_FEEDS = frozenset(
    {"pipeline", "heredoc_redirect", "herestring_redirect", "process_substitution", "<", "<("}
)
"""Nodes that give a command something to read."""
DECIDES = re.compile(
    r"PATH|IFS|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|LD_\w+|DYLD_\w+|\w*_EDITOR|EDITOR|PAGER"
)
"""Variables that control what is run."""
_READERS = frozenset({"read", "mapfile", "readarray", "getopts", "printf"})
_ALWAYS_HELD = frozenset(
    {
        "_",
        "REPLY",
        "MAPFILE",
        "OPTARG",
        "BASH_REMATCH",
        "PWD",
        "OLDPWD",
        "@",
        "*",
        *map(str, range(1, 100)),
    }
)
"""Variables that the shell sets from its arguments or its input."""
_VARIES = re.compile(r"[$`*?\[]|<\(")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_PATTERN = re.compile(rf"[*?\[]|{_BRACES.pattern}|@\(|[!+]\(")
"""What a word without quotes is expanded by, besides variables and substitutions."""
_CODED = re.compile(r"\\[xuU0-7c]")
"""A character of `$'…'` that is written as its number."""
_SEVERAL = re.compile(r"\$@|\$\{@|\$\{\w+\[@\]")
"""An expansion to any number of words, even in quotes."""
_INDEX_RUNS = "an index is evaluated as arithmetic"
_PLAIN_INDEX = re.compile(r"-?\d+|[@*]")
_INDEX_OF_ITEM = re.compile(r"(?<=[(\s])\[(.*?)\]\+?=", re.DOTALL)
"""The index of an element, as in `a=([0]=x [ 1 ]+=y)`."""
_COMPUTES_MORE = re.compile(r"\(\((?![\d\s+*/%<>=!&|^~?:(),-]*\)\))|\$\[")
"""Arithmetic with more than digits."""
_EVALUATES = re.compile(
    r"\$\{(?!#?(?:\w+|[@*#?$!-])(?:\[(?:-?\d+|[@*])\])?"
    r"(?:\}|:?[-=?+]|[%#/^,~]|:\s*-?\d+(?:\s*:\s*-?\d+)?\}))"
)
"""An expansion other than of a variable, or a fixed element, with a default, a cut, a replacement,
or a part from a fixed place."""


class Refusal(NamedTuple):
    """A place that would run or split a value: its characters, and why, as a phrase."""

    span: Span
    why: str


class ScriptWord(NamedTuple):
    """The argument, or the value of a variable, that a reference belongs to."""

    span: Span = (0, 0)
    """Empty if there is none."""
    drops: bool = False
    """It is an argument that can be left out."""
    guarded: bool = False
    """It comes after `--`, or is neither an argument nor a value, so that no program takes it for
    an option."""


class Script:
    """A script as bash gets it, parsed with a letter for each character that the grammar cannot
    read."""

    def __init__(
        self,
        text: str,
        held: frozenset[str] = frozenset(),
        numbers: Sequence[Span] = (),
        *,
        nested: bool = False,
    ) -> None:
        """`held` are variables that contain a value from the start; `numbers` are references to
        whole numbers.

        `nested`: the script is the code of another shell, whose arguments and input contain values.
        """
        self._text = NOT_ASCII.sub("x", text)
        self._numbers = numbers
        long = len(self._text) > LONGEST_PARSED
        self.unread: str = f"the command is longer than {LONGEST_PARSED} characters" if long else ""
        self._root = parsed("" if self.unread else self._text)
        if self._root.has_error:
            self.unread = f"line {self._broken_line()} of the command cannot be parsed"
        self._nodes = () if self.unread else tuple(nodes_of(self._root))
        self._held = _ALWAYS_HELD | held | self._variables_set()
        self._fed = nested or any(node.type in _FEEDS for node in self._nodes)

    def refusals(self) -> Iterator[Refusal]:
        """Return everything that would run or split the value of a variable or an input."""
        if self.unread:
            yield Refusal((0, len(self._text)), self.unread)
            return
        for why in _evaluated_text(self._as_evaluated()):
            yield Refusal((0, 0), why)
        for node in self._nodes:
            if node.type == "command":
                arguments = _arguments_of(node)
                for at, why in refusals(
                    [self._word(one) for one in arguments], self._scan, fed=self._fed
                ):
                    yield Refusal((0, 0) if at is None else _span(arguments[at]), why)
            elif (what := self._evaluates(node)) is not None:
                yield Refusal(_span(node), what)
            elif _variable(node) in self._held and not self._is_number(node):
                if _is_split(node):
                    name = _variable(node)
                    yield Refusal((0, 0), f'${name} would be split into words; write "${name}"')
                elif (why_not := self._wrong_around(node)) is not None:
                    yield Refusal(_span(node), why_not)

    def leaf_at(self, span: Span) -> Node:
        """Return the smallest node around the characters."""
        return self._root.descendant_for_byte_range(*span) or self._root

    def reads(self, span: Span, name: str) -> bool:
        """Whether the characters are read as a reference to that variable."""
        node = self._reference(span)
        return node is not None and _span(node) == span and _variable(node) == name

    def word_of(self, span: Span) -> ScriptWord:
        """Return the argument, or the value of a variable, around a reference that is read."""
        node = self._reference(span)
        for inner, parent in () if node is None else _outwards(node):
            words, at = self._words_around(inner, parent)
            if words:
                return ScriptWord(_span(inner), drops=True, guarded=is_behind_dashes(words, at))
            if parent.type in ("for_statement", "variable_assignment", "array"):
                return ScriptWord(_span(inner))
            if parent.type in ("command", "command_substitution", "file_redirect"):
                break
        return ScriptWord(guarded=True)

    def warning_about(self, span: Span) -> str:
        """Return a warning if the value becomes part of a program in another language; else an
        empty text."""
        node = self._reference(span)
        around = () if node is None else _outwards(node)
        found = (self._words_around(inner, parent) for inner, parent in around)
        return next(filter(None, (warning_about(words, at) for words, at in found if words)), "")

    def _words_around(self, node: Node, parent: Node) -> tuple[list[TemplateWord], int]:
        """Return the words of a command, and which of them the node is; none if it is not one."""
        nodes = _arguments_of(parent) if parent.type == "command" else []
        if node not in nodes:
            return [], 0
        return [self._word(one) for one in nodes], nodes.index(node)

    def _reference(self, span: Span) -> Node | None:
        node = self._root.descendant_for_byte_range(*span)
        while node is not None and node.type != "expansion" and _span(node) == span:
            node = node.parent
        return node

    def _is_number(self, node: Node) -> bool:
        return any(start <= node.start_byte < end for start, end in self._numbers)

    def _scan(self, code: str) -> Iterator[str]:
        return in_code(self._held, code)

    def _wrong_around(self, node: Node) -> str | None:
        """Return why the nodes around one forbid a value there."""
        for inner, parent in _outwards(node):
            if (why := self._wrong_in(inner, parent)) is not None:
                return why
        return None

    def _wrong_in(self, node: Node, parent: Node) -> str | None:
        match parent.type:
            case "string" if self._text[: parent.start_byte].endswith("$"):
                return 'it would be translated; write "…" without the dollar sign'
            case "file_redirect" if any(
                child.type in (">&", "<&", ">&-", "<&-") for child in parent.children
            ):
                return "bash expands what follows >& twice; write &> or 2>&1"
            case "variable_assignment":
                name = _text_of(parent.children[0])
                return f"{name} controls what is run" if DECIDES.fullmatch(name) else None
            case "array":
                return _INDEX_RUNS if _text_of(node).startswith("[") else None
            case kind if kind not in _KEEPS:
                return f"a {kind.replace('_', ' ')} is never safe for values"
            case _:
                return None

    def _evaluates(self, node: Node) -> str | None:
        """Return what the node itself evaluates, even if no value is known to be in it; None if
        nothing."""
        match node.type:
            case "declaration_command" | "unset_command" if not _is_plain_declaration(node):
                keyword = node.children[0].type
                return f"{keyword} evaluates what it is given; assign it first, then write {keyword} NAME"
            case "variable_assignment" if node.children[0].type == "subscript":
                index = _text_of(node.children[0]).partition("[")[2].rstrip("]")
                return None if _PLAIN_INDEX.fullmatch(index) else _INDEX_RUNS
            case "array" if not all(
                map(_PLAIN_INDEX.fullmatch, _INDEX_OF_ITEM.findall(_text_of(node)))
            ):
                return _INDEX_RUNS
            case "test_command" if not self._is_plain_test(node):
                return TESTS_EVALUATE
            case _:
                return None

    def _is_plain_test(self, test: Node) -> bool:
        """Whether operators do not evaluate their operands and, in `[ … ]`, values cannot be taken
        for operators."""
        words = [
            self._word(node)
            for node in nodes_of(test)
            if node.parent is not None and node.parent.type in _TESTS
            if node.type not in _TESTS and node.type not in _BETWEEN_TESTS
        ]
        if not _text_of(test).startswith("[["):
            return is_plain_test(words)
        operators = {word.text for word in words if re.fullmatch(r"-[A-Za-z]+", word.text)}
        others = operators - PLAIN_TESTS
        fixed = r"-?\d+" if NUMBER_TESTS & others else r"\w+"
        return not others or all(
            word.text in operators or re.fullmatch(fixed, word.text) for word in words
        )

    def _word(self, node: Node) -> TemplateWord:
        if node.type == "raw_string":
            return TemplateWord(_text_of(node)[1:-1])
        text = _with_holes(node)
        holds = any(_variable(inner) in self._held for inner in nodes_of(node))
        return TemplateWord(text, holds, _may_be_several(node))

    def _variables_set(self) -> frozenset[str]:
        """Return the variables that the script sets to anything but fixed text."""
        found: set[str] = set()
        for node in self._nodes:
            match node.type:
                case "variable_assignment" if any(map(_varies, node.children[1:])):
                    found.add(re.split(r"[\[+=]", _text_of(node), maxsplit=1)[0])
                case "for_statement":
                    values = [one for one in node.named_children[1:] if one.type != "do_group"]
                    if any(map(_varies, values)):
                        found.add(_text_of(node.named_children[0]))
                case "expansion" if "=" in _text_of(node):
                    found.add(_variable(node))
                case "command":
                    words = [_text_of(child) for child in _arguments_of(node)]
                    found.update(words[1:] if words and words[0] in _READERS else ())
        return frozenset(found)

    def _as_evaluated(self) -> str:
        """Return the text with blanks for what the shell does not read, and digits for numbers."""
        letters = list(self._text)
        for node in self._nodes:
            if node.type in ("raw_string", "comment"):
                letters[node.start_byte : node.end_byte] = " " * (node.end_byte - node.start_byte)
        for start, end in self._numbers:
            letters[start:end] = "1" * (end - start)
        return "".join(letters)

    def _broken_line(self) -> int:
        broken = next(
            (node for node in nodes_of(self._root) if node.is_error or node.is_missing), self._root
        )
        return int(broken.start_point[0]) + 1


def in_code(held: frozenset[str], code: str) -> Iterator[str]:
    """Return what in a shell's code would run or split a value, as phrases; `held` is as in
    Script."""
    return (refusal.why for refusal in Script(code, held, nested=True).refusals())


def _evaluated_text(text: str) -> Iterator[str]:
    """Return what a text evaluates, as phrases; by pattern, as the grammar does not see all of it
    inside quotes."""
    if _COMPUTES_MORE.search(text):
        yield "arithmetic evaluates what its variables hold"
    if found := _EVALUATES.search(text):
        shown = one_line(text[found.start() :].partition("}")[0], 40)
        yield f"{shown}}} is evaluated; write digits for indices and places, and no ! or @"


def _is_plain_declaration(node: Node) -> bool:
    """Whether a declaration has only fixed names, with or without text, and no flag for numbers or
    references."""
    return all(
        child.named_children[0].type == "variable_name"
        if child.type == "variable_assignment"
        else re.fullmatch(r"-[aAfFglptuxr]+|\w+", _text_of(child)) is not None
        for child in node.named_children
    )


def _with_holes(node: Node) -> str:
    """Return the text of a word without quotes, and with holes for what is not fixed."""
    return _PATTERN.sub(HOLE, _without_quotes(node))


def _without_quotes(node: Node) -> str:
    """Return the text of a word without quotes, and with holes for expansions."""
    whole, text, at = _text_of(node), "", 0
    for inner in nodes_of(node):
        start, end = inner.start_byte - node.start_byte, inner.end_byte - node.start_byte
        escaped = inner.type == "ansi_c_string" and _CODED.search(_text_of(inner)) is not None
        if start < at or not (inner.type in _EXPANSIONS or escaped):
            continue
        text += whole[at:start] + ("<(" if inner.type == "process_substitution" else "") + HOLE
        at = end
    text += whole[at:]
    return re.sub(r"['\"\\]|\$(?=['\"])", "", text)


def _may_be_several(word: Node) -> bool:
    """Whether bash may make any number of words of one: of `"$@"` or, without quotes, of `{…,…}`
    and of what a command prints."""
    if _SEVERAL.search(_text_of(word)) is not None:
        return True
    if word.type in ("string", "raw_string"):
        return False
    printed = any(part.type == "command_substitution" for part in (word, *word.children))
    return printed or _BRACES.search(_without_quotes(word)) is not None


def _varies(node: Node) -> bool:
    return _VARIES.search(_text_of(node)) is not None


def _arguments_of(command: Node) -> list[Node]:
    left_out = ("variable_assignment", "comment")
    return [
        one
        for one in command.named_children
        if one.type not in left_out and not one.type.endswith("_redirect")
    ]


def _variable(node: Node) -> str:
    """Return the variable of an expansion; empty for any other node."""
    if not node.type.endswith("expansion"):
        return ""
    found = re.match(r"\$\{?[#!]?(\w+|[@*_])", _text_of(node))
    return found[1] if found else ""


def _is_split(expansion: Node) -> bool:
    """Whether the shell splits the expansion at blanks and uses it as a pattern for file names."""
    if _text_of(expansion).startswith("${#"):
        return False
    node = expansion.parent
    while node is not None and node.type in ("concatenation", "command_name"):
        node = node.parent
    if node is None or node.type not in _UNSPLIT:
        return True
    while node.type in _TESTS - {"test_command"} and node.parent is not None:
        node = node.parent
    return node.type == "test_command" and not _text_of(node).startswith("[[")


def _outwards(leaf: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the nodes around a leaf, from the inside out, each with the one below it."""
    node = leaf
    while (parent := node.parent) is not None:
        yield node, parent
        node = parent


def _span(node: Node) -> Span:
    return node.start_byte, node.end_byte


def _text_of(node: Node) -> str:
    return (node.text or b"").decode("ascii", "replace")
