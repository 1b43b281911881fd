"""The tree of a shell line, and its words as the shell would see them."""

import re
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from codeagent.core.patterns import HOLE
from codeagent.tools.shell.programs import word_set

_PARSER = Parser(Language(tree_sitter_bash.language()))
_QUOTED = word_set("string translated_string string_content")
NOT_ASCII = re.compile(r"[^\x00-\x7f]")
BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_GLOBS = re.compile(r"(?<!\\)[*?\[]|(?<!\\)[+@!]\(")


def nodes_of(root: Node) -> Iterator[Node]:
    """Yield the node and every node within, without recursion, as an attacker chooses the depth of
    nesting."""
    cursor = root.walk()
    while True:
        if cursor.node is not None:
            yield cursor.node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def parsed(line: str) -> Node:
    """Return the tree of the line, with one byte per character.

    The grammar's scanner reads beyond its tables for some characters that are not ASCII, and
    crashes the process. To a shell all of them are letters, so they are replaced by letters.
    """
    return _PARSER.parse(NOT_ASCII.sub("x", line).encode()).root_node


def source_of(node: Node, line: str) -> str:
    """Return the text of a node in the parsed line."""
    return line[node.start_byte : node.end_byte]


def word_of(node: Node, line: str, *, holes: bool = False) -> str:
    """Return the word of a node as the shell would see it without expansions.

    `holes`: put `HOLE` for expansions, and for globs.
    """
    text = source_of(node, line)
    match node.type:
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string" if holes:
            return HOLE if "\\" in text else text[2:-1]
        case "string" | "translated_string":
            inner = _with_holes(node, line) if holes else text
            return re.sub(r'\\([$`"\\\n])', r"\1", inner.removeprefix("$")[1:-1])
        case "word":
            if holes and _GLOBS.search(text):
                text = _GLOBS.sub(HOLE, text)
            return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        case "concatenation" if holes and BRACES.search(text):
            return HOLE
        case "command_name" | "concatenation":
            return "".join(word_of(child, line, holes=holes) for child in node.named_children)
        case "number" | "variable_name":
            return text
        case _:
            return HOLE if holes else text


def _with_holes(node: Node, line: str) -> str:
    """Return a quoted string with a hole for each expansion."""
    text, at = "", node.start_byte
    for child in nodes_of(node):
        if not child.is_named or child.type in _QUOTED or child.start_byte < at:
            continue
        text += line[at : child.start_byte] + HOLE
        at = child.end_byte
    return text + line[at : node.end_byte]
