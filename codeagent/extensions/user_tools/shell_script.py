"""Finds how bash would read each placeholder of a script, and everything that would run or split a
value.

In what bash gets, a placeholder is a reference to a variable, so one rule holds for both:
everything around a value, from a placeholder or a variable, must be known to keep it in one piece.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from tree_sitter import Node

from codeagent.core.dataclass import dataclass
from codeagent.extensions.user_tools.evaluation import (
    INDEX_RUNS,
    NUMBER_TESTS,
    PLAIN_INDEX,
    PLAIN_TESTS,
    TESTS_EVALUATE,
    TemplateWord,
    evaluated_text,
    is_behind_dashes,
    refusals,
    warning_about,
)
from codeagent.tools.shell.syntax import LONGEST_PARSED, NOT_ASCII, nodes_of, parsed

Quoting = Literal["bare", "double", "single", "ansi", "document", "arithmetic", "comment"]
Span = tuple[int, int]
"""Characters of the script: the first, and the one after the last."""

_LEAVES: dict[str, Quoting] = {
    "word": "bare", "command_name": "bare", "string_content": "double", "string": "double", "raw_string": "single",
    "ansi_c_string": "ansi", "heredoc_body": "document", "heredoc_content": "document", "comment": "comment",
    "extglob_pattern": "bare", "variable_name": "bare",
}  # fmt: skip  # a table, many words to the line
_AROUND = frozenset({
    "program", "list", "pipeline", "redirected_statement", "subshell", "if_statement", "elif_clause", "else_clause",
    "while_statement", "do_group", "negated_command", "concatenation", "string", "command_substitution", "expansion",
    "process_substitution", "heredoc_body", "binary_expression", "unary_expression", "parenthesized_expression",
    "case_statement", "case_item", "compound_statement", "variable_assignments", "command", "command_name",
    "test_command", "herestring_redirect", "declaration_command", "unset_command",
})  # fmt: skip  # a table, many words to the line
"""Nodes that may contain a value; what some of them run is checked separately."""
_ARITHMETIC_RUNS = "arithmetic evaluates what it is given"
_NEVER = {
    "expansion": "inside ${…} it would be evaluated; put it in a variable of its own first",
    "simple_expansion": "it would become part of the variable's name; write ${NAME} before it",
    "subscript": INDEX_RUNS,
    "heredoc_start": "it would be the end mark of a here-document",
    "heredoc_end": "it would be the end mark of a here-document",
    "c_style_for_statement": _ARITHMETIC_RUNS,
    "ternary_expression": _ARITHMETIC_RUNS,
    "arithmetic_expansion": _ARITHMETIC_RUNS,
    "regex": "it would be a pattern, not text",
    "brace_expression": "it would be a range",
}
DECIDES = re.compile(
    r"PATH|IFS|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|LD_\w+|DYLD_\w+|\w*_EDITOR|EDITOR|PAGER"
)
"""Variables that control what is run."""
_EXPANDS = re.compile(r"[$`*?\[]|\{[^{}]*(?:,|\.\.)[^{}]*\}|@\(|[!+]\(")
"""Characters that start an expansion, except in single quotes."""
_INDEX_OF_ITEM = re.compile(r"(?<=[(\s])\[(.*?)\]\+?=", re.DOTALL)
"""The index of an element, as in `a=([0]=x [ 1 ]+=y)`."""
_READERS = frozenset({"read", "mapfile", "readarray", "getopts", "printf"})
_ALWAYS_HELD = frozenset({
    "_", "REPLY", "MAPFILE", "OPTARG", "BASH_REMATCH", "PWD", "OLDPWD", "@", "*", *map(str, range(1, 100)),
})  # fmt: skip  # a table, many words to the line
"""Variables that the shell sets from its arguments or its input."""
_UNSPLIT = frozenset({
    "string", "translated_string", "variable_assignment", "test_command", "binary_expression", "unary_expression",
    "heredoc_body", "herestring_redirect", "case_statement", "case_item", "expansion", "arithmetic_expansion",
})  # fmt: skip  # a table, many words to the line
"""Nodes in which a variable stays one word without quotes."""
_TESTS = frozenset(
    {"test_command", "binary_expression", "unary_expression", "parenthesized_expression"}
)
_KEEP = frozenset({"for_statement", "variable_assignment", "array"})
"""Nodes in which a value is kept in a variable."""
_SETTLE = _KEEP | {"command", "command_substitution", "file_redirect"}
"""Nodes outside of which a value is no longer a word, or part of one."""
_FEEDS = frozenset(
    {"pipeline", "heredoc_redirect", "herestring_redirect", "process_substitution", "<", "<("}
)
"""Nodes that give a command something to read."""


@dataclass(frozen=True)
class ShellPlace:
    """Where a placeholder is."""

    quoting: Quoting = "bare"
    word: Span = (0, 0)
    """The argument that it belongs to; empty if there is none."""
    whole: bool = False
    """It is an unquoted word of its own."""
    drops: bool = False
    """Its word is an argument that can be left out."""
    leads: bool = False
    """Its word, or the value of a variable, begins with it, so a program may take it for an
    option."""
    refused: str = ""
    """Why a reference cannot be put there, as a phrase; empty if it can."""
    warning: str = ""


class Refusal(NamedTuple):
    """A place that would run or split a value: its characters, and why, as a phrase."""

    span: Span
    why: str


class Script:
    """A script, parsed with letters for everything that the grammar cannot read, and a word for
    each placeholder.

    A placeholder becomes as many letters as it has characters, so that positions stay the same.
    """

    def __init__(
        self,
        text: str,
        spans: Sequence[Span] = (),
        *,
        held: frozenset[str] = frozenset(),
        nested: bool = False,
    ) -> None:
        """`spans` are placeholders, which do not overlap; `held` are variables that contain a value
        from the start.

        `nested`: the script is the code of another shell, whose arguments and input contain values.
        """
        self._spans = spans
        letters = list(NOT_ASCII.sub("x", text))
        for start, end in spans:
            letters[start:end] = "Z" * (end - start)
        self._text = "".join(letters)
        long = len(self._text) > LONGEST_PARSED
        self._unread = f"the command is longer than {LONGEST_PARSED} characters" if long else ""
        self._root = parsed("" if self._unread else self._text)
        if self._root.has_error:
            self._unread = f"line {self._broken_line()} of the command cannot be parsed"
        self._nodes = () if self._unread else tuple(nodes_of(self._root))
        self._held = held | self._variables_set()
        self._fed = nested or any(node.type in _FEEDS for node in self._nodes)

    def refusals(self) -> Iterator[Refusal]:
        """Return everything that would run or split the value of a placeholder, a variable or an
        input."""
        if self._unread:
            yield Refusal((0, len(self._text)), self._unread)
            return
        for why in evaluated_text(self._as_evaluated()):
            yield Refusal((0, 0), why)
        for node in self._nodes:
            if node.type == "command":
                arguments = _arguments_of(node)
                for at, why in refusals(
                    [self._word(one) for one in arguments],
                    partial(in_code, self._held),
                    fed=self._fed,
                ):
                    yield Refusal((0, 0) if at is None else _span(arguments[at]), why)
            elif (what := self._evaluates(node)) is not None:
                yield Refusal(_span(node), what)
            elif _variable(node) in self._held:
                if _is_split(node):
                    yield Refusal(
                        (0, 0),
                        f'${_variable(node)} would be split into words; write "${_variable(node)}"',
                    )
                elif (why_not := self._wrong_around(node)) is not None:
                    yield Refusal((0, 0), why_not)

    def place(self, span: Span) -> ShellPlace:
        start, end = span
        if self._unread:
            return ShellPlace(refused=self._unread)
        leaf = self._root.descendant_for_byte_range(start, end)
        if leaf is None or leaf.type not in _LEAVES:
            return ShellPlace(
                refused=_NEVER.get(leaf.type if leaf else "", "the shell would not read it as text")
            )
        quoting = _LEAVES[leaf.type]
        if quoting == "comment":
            return ShellPlace(quoting)
        if leaf.type != "raw_string" and (refused := self._behind(start, quoting)):
            return ShellPlace(refused=refused)
        if quoting == "bare" and _in_plain_arithmetic(leaf):
            return ShellPlace("arithmetic")
        if any(parent.type == "expansion" for _, parent in _outwards(leaf)):
            return ShellPlace(refused=_NEVER["expansion"])
        if why_not := self._wrong_around(leaf) or (
            "it would name a variable" if leaf.type == "variable_name" else ""
        ):
            return ShellPlace(refused=why_not)
        return self._in_its_word(
            ShellPlace(quoting, whole=quoting == "bare" and _span(leaf) == span), leaf, start
        )

    def _in_its_word(self, found: ShellPlace, leaf: Node, start: int) -> ShellPlace:
        """Return the place with its word, which is the nearest argument or value of a variable
        around it."""
        settled = False
        for node, parent in _outwards(leaf):
            word = _span(node)
            leads = not self._fixed(word[0], start)
            nodes = _arguments_of(parent) if parent.type == "command" else []
            if node in nodes:
                words, at = [self._word(one) for one in nodes], nodes.index(node)
                found = replace(found, warning=found.warning or warning_about(words, at))
                leads = leads and not is_behind_dashes(words, at)
            if not settled and (node in nodes or parent.type in _KEEP):
                whole = found.whole and _span(leaf) == word
                found = replace(found, word=word, whole=whole, drops=node in nodes, leads=leads)
            settled = settled or parent.type in _SETTLE
        return found

    def _wrong_around(self, leaf: Node) -> str | None:
        """Return why the nodes around a leaf forbid a value there."""
        return next(
            filter(None, (self._wrong_in(node, parent) for node, parent in _outwards(leaf))), None
        )

    def _wrong_in(self, node: Node, parent: Node) -> str | None:
        field = parent.field_name_for_child(parent.children.index(node))
        match parent.type:
            case "string" if self._text[: parent.start_byte].endswith("$") or _text_of(
                parent
            ).startswith("$"):
                return 'it would be translated; write "…" without the dollar sign'
            case "file_redirect" if any(
                child.type in (">&", "<&", ">&-", "<&-") for child in parent.children
            ):
                return "bash expands what follows >& twice; write &> or 2>&1"
            case "file_redirect":
                return "it would name a descriptor" if field == "descriptor" else None
            case "for_statement":
                return "it would name a variable" if field == "variable" else None
            case "function_definition":
                return "it would name a function" if field == "name" else None
            case "variable_assignment" if field == "name":
                return "it would name a variable"
            case "variable_assignment":
                name = _text_of(parent.children[0])
                return f"{name} controls what is run" if DECIDES.fullmatch(name) else None
            case "array":
                return INDEX_RUNS if _text_of(node).startswith("[") else None
            case "heredoc_redirect":
                mark = next(
                    (_text_of(child) for child in parent.children if child.type == "heredoc_start"),
                    "'",
                )
                quoted = "a here-document with a quoted end mark is not expanded; remove the quotes from the mark"
                return (
                    quoted if node.type == "heredoc_body" and re.search(r"['\"\\]", mark) else None
                )
            case "compound_statement" if _text_of(parent).startswith("(("):
                return _ARITHMETIC_RUNS
            case kind:
                known = kind in _AROUND
                return (
                    None
                    if known
                    else _NEVER.get(kind, f"a {kind.replace('_', ' ')} is never safe for values")
                )

    def _evaluates(self, node: Node) -> str | None:
        """Return what the node itself evaluates, even if no value is known to be in it; None if
        nothing."""
        match node.type:
            case "declaration_command" | "unset_command" if not self._is_plain_declaration(node):
                keyword = node.children[0].type
                return f"{keyword} evaluates what it is given; assign it first, then write {keyword} NAME"
            case "variable_assignment" if node.children[0].type == "subscript":
                index = _text_of(node.children[0]).partition("[")[2].rstrip("]")
                return None if PLAIN_INDEX.fullmatch(index) else INDEX_RUNS
            case "array" if not all(
                map(PLAIN_INDEX.fullmatch, _INDEX_OF_ITEM.findall(_text_of(node)))
            ):
                return INDEX_RUNS
            case "test_command" if not self._is_plain_test(node):
                return TESTS_EVALUATE
            case _:
                return None

    def _is_plain_declaration(self, node: Node) -> bool:
        """Whether a declaration has only fixed names, with or without text, and no flag for numbers
        or references."""
        for child in node.named_children:
            if child.type == "variable_assignment":
                if child.named_children[0].type != "variable_name":
                    return False
            elif self._has_placeholder(child) or not re.fullmatch(
                r"-[aAfFglptuxr]+|\w+", _text_of(child)
            ):
                return False
        return True

    def _is_plain_test(self, test: Node) -> bool:
        """Whether operators do not evaluate their operands and, in `[ … ]`, values cannot be taken
        for operators."""
        parts = [
            node
            for node in nodes_of(test)
            if node.type not in _TESTS and node.parent and node.parent.type in _TESTS
        ]
        named = [
            node for node in parts if node.is_named and node.type not in ("test_operator", "regex")
        ]
        operators = [
            text for text in map(_text_of, parts) if re.fullmatch(r"-[A-Za-z]\w*|[=<>~]+|!=", text)
        ]
        varies = any(self._varies(node) for node in named)
        double = _text_of(test).startswith("[[")
        if PLAIN_TESTS | (frozenset() if double else NUMBER_TESTS) >= set(operators):
            return double or not varies or len(operators) < 2
        fixed = r"-?\d+" if NUMBER_TESTS & set(operators) else r"\w+"
        return not varies and all(re.fullmatch(fixed, _text_of(node)) for node in named)

    def _word(self, node: Node) -> TemplateWord:
        placed = self._has_placeholder(node)
        text = self._fixed(*_span(node))
        if node.type == "raw_string":
            return TemplateWord(_text_of(node)[1:-1], placed)
        if not _EXPANDS.search(_text_of(node)):
            return TemplateWord(text, placed)
        last = text.rpartition("/")[2]
        holds = placed or self._holds_variable(node)
        return TemplateWord(
            text, holds, open=not last or _EXPANDS.search(last) is not None, expands=True
        )

    def _holds_variable(self, node: Node) -> bool:
        return any(_variable(inner) in self._held for inner in nodes_of(node))

    def _has_placeholder(self, node: Node) -> bool:
        return any(node.start_byte <= start < node.end_byte for start, _ in self._spans)

    def _varies(self, node: Node) -> bool:
        return self._has_placeholder(node) or re.search(r"[$`*?\[]|<\(", _text_of(node)) is not None

    def _variables_set(self) -> frozenset[str]:
        """Return the variables that may hold a value: all that the script sets to anything but
        fixed text."""
        found = set(_ALWAYS_HELD)
        for node in self._nodes:
            match node.type:
                case "variable_assignment" if any(
                    self._varies(child) for child in node.children[1:]
                ):
                    found.add(re.split(r"[\[+=]", _text_of(node), maxsplit=1)[0])
                case "for_statement":
                    values = [
                        child for child in node.named_children[1:] if child.type != "do_group"
                    ]
                    found |= (
                        {_text_of(node.named_children[0])}
                        if any(map(self._varies, values))
                        else set()
                    )
                case "expansion" if "=" in _text_of(node):
                    found.add(_variable(node))
                case "command":
                    words = [_text_of(child) for child in _arguments_of(node)]
                    found |= set(words[1:]) if words and words[0] in _READERS else set()
        return frozenset(found)

    def _as_evaluated(self) -> str:
        """Return the text with blanks for what the shell does not read, and digits for
        placeholders."""
        letters = list(self._text)
        for node in self._nodes:
            if node.type in ("raw_string", "comment"):
                letters[node.start_byte : node.end_byte] = " " * (node.end_byte - node.start_byte)
        for start, end in self._spans:
            letters[start:end] = "1" * (end - start)
        return "".join(letters)

    def _fixed(self, start: int, end: int) -> str:
        """Return the fixed characters, without quotes and placeholders."""
        kept = "".join(
            letter
            for at, letter in enumerate(self._text[start:end], start)
            if not any(first <= at < last for first, last in self._spans)
        )
        return re.sub(r"['\"\\]|\$(?=['\"])", "", kept)

    def _behind(self, start: int, quoting: Quoting) -> str | None:
        """Return why the character before makes the place wrong."""
        front = self._text[:start]
        if (len(front) - len(front.rstrip("\\"))) % 2:
            return "a backslash before it removes its quotes"
        if front.endswith("$") and quoting != "ansi":
            return "a dollar sign before it would make it an expansion"
        return None

    def _broken_line(self) -> int:
        broken = next(
            (node for node in nodes_of(self._root) if node.is_error or node.is_missing), self._root
        )
        return int(broken.start_point[0]) + 1


def in_code(held: frozenset[str], code: str) -> Iterator[str]:
    """Return what in a shell's code would run or split a value, as phrases; `held` is as in
    Script."""
    return (refusal.why for refusal in Script(code, held=held, nested=True).refusals())


def _arguments_of(command: Node) -> list[Node]:
    left_out = ("variable_assignment", "comment")
    return [
        one
        for one in command.named_children
        if one.type not in left_out and not one.type.endswith("_redirect")
    ]


def _variable(node: Node) -> str:
    """Return the variable of an expansion; empty for any other node."""
    found = (
        re.match(r"\$\{?[#!]?(\w+|[@*_])", _text_of(node))
        if node.type.endswith("expansion")
        else None
    )
    return found[1] if found else ""


def _is_split(expansion: Node) -> bool:
    """Whether the shell splits the expansion at blanks and uses it as a pattern for file names."""
    if _text_of(expansion).startswith("${#"):
        return False
    node = expansion.parent
    while node is not None and node.type in ("concatenation", "command_name"):
        node = node.parent
    return node is None or node.type not in _UNSPLIT


def _in_plain_arithmetic(leaf: Node) -> bool:
    node = leaf.parent
    while node is not None and node.type in (
        "binary_expression",
        "unary_expression",
        "parenthesized_expression",
    ):
        node = node.parent
    return (
        node is not None
        and node.type == "arithmetic_expansion"
        and _text_of(node).startswith("$((")
    )


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
