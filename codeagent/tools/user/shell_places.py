"""Finds how the shell would read a place in a script: its quoting, its word, and what becomes of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tree_sitter import Node

from codeagent.tools.shell.syntax import LONGEST_PARSED, NOT_ASCII, nodes_of, parsed
from codeagent.tools.user.placeholders import (
    TemplateWord,
    is_behind_dashes,
    reason_against,
    tests_are_plain,
    warning_about,
)

Quoting = Literal["bare", "double", "single", "ansi", "document", "arithmetic", "comment"]

_LEAVES: dict[str, Quoting] = {
    "word": "bare", "command_name": "bare", "string_content": "double", "string": "double", "raw_string": "single",
    "ansi_c_string": "ansi", "heredoc_body": "document", "heredoc_content": "document", "comment": "comment",
    "extglob_pattern": "bare", "variable_name": "bare",
}  # fmt: skip
_AROUND = frozenset({
    "program", "list", "pipeline", "redirected_statement", "subshell", "if_statement", "elif_clause", "else_clause",
    "while_statement", "do_group", "negated_command", "concatenation", "string", "command_substitution",
    "process_substitution", "heredoc_body", "heredoc_redirect", "binary_expression", "unary_expression",
    "parenthesized_expression", "case_item", "compound_statement", "function_definition", "variable_assignments",
})  # fmt: skip
"""Nodes around a value that need no further check."""
_NEVER = {
    "expansion": "inside ${…} it would be evaluated; put it in a variable of its own first",
    "simple_expansion": "it would be taken for a part of the variable's name; write ${NAME} in front of it",
    "subscript": "an index is evaluated as arithmetic",
    "heredoc_start": "it would be the end mark of a here-document",
    "heredoc_end": "it would be the end mark of a here-document",
    "c_style_for_statement": "arithmetic evaluates what it is given",
    "ternary_expression": "arithmetic evaluates what it is given",
    "unset_command": "it would name a variable",
    "regex": "it would be a pattern, not a text",
    "function_definition": "it would name a function",
    "brace_expression": "it would be a range",
}
DECIDES = re.compile(
    r"PATH|IFS|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|LD_\w+|DYLD_\w+|\w*_EDITOR|EDITOR|PAGER"
)
"""Variables that decide what is run."""
_EXPANDS = re.compile(r"[$`*?\[]|\{[^{}]*(?:,|\.\.)[^{}]*\}|@\(|[!+]\(")
"""What the shell may replace, except in single quotes."""


@dataclass(frozen=True)
class ShellPlace:
    """One place of a script."""

    quoting: Quoting = "bare"
    word: tuple[int, int] = (0, 0)
    """Characters (first, end) of the argument that it belongs to; empty if it belongs to none."""
    whole: bool = False
    """It is a word of its own, unquoted."""
    drops: bool = False
    """Its word is an argument, which can be left out."""
    leads: bool = False
    """Its word, or the value of a variable, begins with it: a program may take it for an option."""
    refused: str = ""
    """Why no value is allowed there, as a phrase; empty if one is."""
    warning: str = ""


def places_in(text: str, spans: Sequence[tuple[int, int]]) -> tuple[ShellPlace, ...]:
    """The place of each span of characters; they are placeholders, and do not overlap."""
    if not spans:
        return ()
    if len(text) > LONGEST_PARSED:
        return tuple(ShellPlace(refused=f"the command is longer than {LONGEST_PARSED} characters") for _ in spans)
    script = Script(text, spans)
    return tuple(script.place(number) for number in range(len(spans)))


class Script:
    """A script in which everything that the grammar cannot read is a letter, and each placeholder a word.

    A placeholder becomes as many letters as it has characters, so that positions stay as they are.
    """

    def __init__(self, text: str, spans: Sequence[tuple[int, int]]) -> None:
        self._spans = spans
        letters = list(NOT_ASCII.sub("x", text))
        for start, end in spans:
            letters[start:end] = "Z" * (end - start)
        self._text = "".join(letters)
        self._root = parsed(self._text)

    @property
    def nodes(self) -> list[Node]:
        return list(nodes_of(self._root))

    def without(self, nodes: Sequence[Node]) -> str:
        """The text with blanks for what the shell does not read, and digits for placeholders."""
        letters = list(self._text)
        for node in nodes:
            if node.type in ("raw_string", "comment"):
                letters[node.start_byte : node.end_byte] = " " * (node.end_byte - node.start_byte)
        for start, end in self._spans:
            letters[start:end] = "1" * (end - start)
        return "".join(letters)

    def place(self, number: int) -> ShellPlace:
        start, end = self._spans[number]
        if self._root.has_error:
            return ShellPlace(refused=f"line {self._broken_line()} of the command cannot be parsed")
        if refused := self._behind(start):
            return ShellPlace(refused=refused)
        leaf = self._root.descendant_for_byte_range(start, end)
        if leaf is None or leaf.type not in _LEAVES:
            return ShellPlace(refused=_NEVER.get(leaf.type if leaf else "", "the shell would not read it as a text"))
        found = ShellPlace(_LEAVES[leaf.type], whole=(leaf.start_byte, leaf.end_byte) == (start, end))
        if found.quoting == "comment":
            return found
        return self._within(found, leaf, start)

    def _within(self, found: ShellPlace, leaf: Node, start: int) -> ShellPlace:
        """Look at everything around the leaf, from the inside out."""
        node: Node = leaf
        innermost = True
        while (parent := node.parent) is not None:
            if parent.type in ("arithmetic_expansion",) or _is_arithmetic(parent):
                ours = innermost and found.quoting == "bare" and parent.type == "arithmetic_expansion"
                if not ours or not _in_plain_arithmetic(leaf, parent):
                    return ShellPlace(refused="arithmetic evaluates what it is given")
                found = replace(found, quoting="arithmetic", whole=False)
            elif refused := self._refusal(node, parent, found):
                return ShellPlace(refused=refused)
            if parent.type == "command" and found.quoting != "arithmetic":
                answer = self._as_argument(node, parent, found, start, innermost=innermost)
                if answer.refused:
                    return answer
                found, innermost = answer, False
            elif parent.type in (
                "command_substitution",
                "for_statement",
                "variable_assignment",
                "file_redirect",
                "array",
            ):
                if innermost and parent.type not in ("command_substitution", "file_redirect"):
                    kept = (node.start_byte, node.end_byte)
                    found = replace(found, word=kept, leads=not self._fixed(node.start_byte, start))
                innermost = False
            node = parent
        return (
            found
            if found.quoting != "bare" or leaf.type != "variable_name"
            else ShellPlace(refused="it would name a variable")
        )

    def _refusal(self, node: Node, parent: Node, found: ShellPlace) -> str | None:
        """Why the parent makes the place wrong."""
        kind = parent.type
        match kind:
            case "string" if text_of_node(parent).startswith("$") or self._text[: parent.start_byte].endswith("$"):
                return 'it would be translated; write "…" without the dollar sign in front'
            case "command_name":
                return "it would name the program"
            case "command" if node.type == "command_name":
                return "it would name the program"
            case "file_redirect" if any(child.type in (">&", "<&", ">&-", "<&-") for child in parent.children):
                return "bash expands what stands behind >& twice; write &> or 2>&1"
            case "file_redirect" | "herestring_redirect":
                return None if _field_of(node, parent) != "descriptor" else "it would name a descriptor"
            case "for_statement" | "case_statement":
                return "it would name a variable" if _field_of(node, parent) == "variable" else None
            case "function_definition" if _field_of(node, parent) == "name":
                return _NEVER[kind]
            case "variable_assignment":
                return self._assignment(node, parent)
            case "array":
                return None
            case "declaration_command":
                return self._declaration(node, parent)
            case "test_command":
                return None if self._plain_test(parent) else "tests other than = != -z -n and of files evaluate it"
            case "heredoc_redirect" if found.quoting == "document":
                return self._document(parent)
            case "command":
                return None
            case _:
                return None if kind in _AROUND else _NEVER.get(kind, f"in a {kind.replace('_', ' ')} nothing is safe")

    def _as_argument(self, node: Node, command: Node, found: ShellPlace, start: int, *, innermost: bool) -> ShellPlace:
        """The place as an argument of the command."""
        if node.type == "variable_assignment":
            return found
        nodes = arguments_of(command)
        if node not in nodes:
            return found
        at = nodes.index(node)
        words = [self.word(child) for child in nodes]
        if refused := reason_against(words, at):
            return ShellPlace(refused=refused)
        warning = found.warning or warning_about(words, at) or ""
        if not innermost:
            return replace(found, warning=warning)
        word = (node.start_byte, node.end_byte)
        leads = not is_behind_dashes(words, at) and not self._fixed(word[0], start)
        whole = found.whole and word == (start, self._end_of(start))
        return replace(found, word=word, whole=whole, drops=True, leads=leads, warning=warning)

    def word(self, node: Node, kept: frozenset[str] = frozenset()) -> TemplateWord:
        holds = any(node.start_byte <= start < node.end_byte for start, _ in self._spans)
        text = self._fixed(node.start_byte, node.end_byte)
        if node.type == "raw_string":
            return TemplateWord(text_of_node(node)[1:-1], holds)
        if not _EXPANDS.search(text_of_node(node)):
            return TemplateWord(text, holds)
        last = text.rpartition("/")[2]
        known = any(variable_of(one) in kept for one in nodes_of(node) if one.type.endswith("expansion"))
        return TemplateWord(text, holds, open=not last or _EXPANDS.search(last) is not None, expands=True, kept=known)

    def _fixed(self, start: int, end: int) -> str:
        """The fixed characters, without quotes and placeholders."""
        kept = "".join(
            letter
            for at, letter in enumerate(self._text[start:end], start)
            if not any(first <= at < last for first, last in self._spans)
        )
        return re.sub(r"['\"\\]|\$(?=['\"])", "", kept)

    def _end_of(self, start: int) -> int:
        return next(end for first, end in self._spans if first == start)

    def _behind(self, start: int) -> str | None:
        """Why the character in front makes the place wrong."""
        front = self._text[:start]
        slashes = len(front) - len(front.rstrip("\\"))
        leaf = self._root.descendant_for_byte_range(start, start + 1)
        literal = leaf is not None and leaf.type in ("raw_string", "comment")
        if slashes % 2 and not literal:
            return "a backslash in front of it takes away its quotes"
        if front.endswith("$") and not literal and not (leaf is not None and leaf.type == "ansi_c_string"):
            return "a dollar sign in front of it would make it an expansion"
        return None

    def _assignment(self, node: Node, assignment: Node) -> str | None:
        if _field_of(node, assignment) == "name":
            return "it would name a variable"
        name = assignment.child_by_field_name("name")
        if name is None or name.type != "variable_name":
            return "an element of an array has an index that is evaluated"
        if DECIDES.fullmatch(text_of_node(name)):
            return f"{text_of_node(name)} decides what is run"
        return None

    def _declaration(self, node: Node, declaration: Node) -> str | None:
        keyword = declaration.children[0].type
        flags = [text_of_node(child) for child in declaration.named_children if child.type == "word"]
        if node.type != "variable_assignment" or keyword not in ("export", "local", "readonly") or flags:
            return f"{keyword} evaluates what it is given; assign it first, then write {keyword} NAME"
        return None

    def _plain_test(self, test: Node) -> bool:
        operators = [text_of_node(node) for node in nodes_of(test) if node.type == "test_operator" or not node.is_named]
        return tests_are_plain([text for text in operators if text not in ("[", "]", "[[", "]]", "(", ")")])

    def _document(self, redirect: Node) -> str | None:
        start = next((child for child in redirect.children if child.type == "heredoc_start"), None)
        if start is None or re.search(r"['\"\\]", text_of_node(start)):
            return "a here-document with a quoted end mark is taken as it is; take the quotes from the mark"
        return None

    def _broken_line(self) -> int:
        broken = next((node for node in nodes_of(self._root) if node.is_error or node.is_missing), self._root)
        return int(broken.start_point[0]) + 1


def variable_of(expansion: Node) -> str:
    match = re.match(r"\$\{?[#!]?(\w+|[@*_])", text_of_node(expansion))
    return match[1] if match else ""


def arguments_of(command: Node) -> list[Node]:
    left_out = ("variable_assignment", "comment")
    return [one for one in command.named_children if one.type not in left_out and not one.type.endswith("_redirect")]


def _is_arithmetic(node: Node) -> bool:
    return node.type == "compound_statement" and text_of_node(node).startswith("((")


def _in_plain_arithmetic(leaf: Node, arithmetic: Node) -> bool:
    node = leaf.parent
    while node is not None and node != arithmetic:
        if node.type not in ("binary_expression", "unary_expression", "parenthesized_expression"):
            return False
        node = node.parent
    return text_of_node(arithmetic).startswith("$((")


def _field_of(node: Node, parent: Node) -> str | None:
    at = next(at for at, child in enumerate(parent.children) if child == node)
    return parent.field_name_for_child(at)


def text_of_node(node: Node) -> str:
    return (node.text or b"").decode("ascii", "replace")
