"""Finds what in a script would run the value of a variable or an input, where that may come from a call."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tree_sitter import Node

from codeagent.tools.shell.programs import EVALUATE, PYTHON, RUN_THEIR_INPUT, SHELLS
from codeagent.tools.shell.syntax import LONGEST_PARSED, nodes_of
from codeagent.tools.user.placeholders import TemplateWord, bare, has_code, program_at, shells_own
from codeagent.tools.user.shell_places import DECIDES, Script, arguments_of, text_of_node, variable_of

_NAME_VARIABLES = frozenset({
    "read", "mapfile", "readarray", "getopts", "unset", "wait", "let", "enable", "hash", "alias", "bind", "complete",
    "compgen", "declare", "typeset", "local", "readonly", "export",
})  # fmt: skip
"""Builtins that take names of variables, of which each may have an index that is evaluated."""
_ARITHMETIC = re.compile(r"\(\((.*?)\)\)|\$\[(.*?)\]", re.DOTALL)
_COMPUTES = re.compile(r"[\d\s+*/%<>=!&|^~?:(),-]*")
_INDIRECT = re.compile(r"\$\{!|\$\{[^{}]*@[A-Za-z]\}")
_SLICE = re.compile(r"\$\{\w+(?:\[[^\]]*\])?:(?![-=?+])[^}]*")
_PLAIN_SLICE = re.compile(r"\$\{\w+(?:\[[@*\d]*\])?:\s*-?\d+(?:\s*:\s*-?\d+)?")
_INDEX = re.compile(r"\$\{[#!]?\w+\[([^\]]*)")
_PLAIN_INDEX = re.compile(r"-?\d+|[@*]")
_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_READERS = frozenset({"read", "mapfile", "readarray", "getopts", "printf"})
_ALWAYS_KEPT = frozenset({"_", "REPLY", "MAPFILE", "PWD", "OLDPWD", "@", "*", *map(str, range(1, 100))})
"""Variables that the shell sets, and to what it was given."""
_UNSPLIT = frozenset({
    "string", "translated_string", "variable_assignment", "test_command", "binary_expression", "unary_expression",
    "heredoc_body", "herestring_redirect", "case_statement", "case_item", "expansion", "arithmetic_expansion",
})  # fmt: skip
"""Nodes in which a variable stays one word without quotes."""

_FEEDS = frozenset({"pipeline", "heredoc_redirect", "herestring_redirect", "process_substitution"})
"""Nodes that give a command something to read."""


def evaluations(text: str, spans: Sequence[tuple[int, int]] = (), *, nested: bool = False) -> Iterator[str]:
    """Every construct of the script that would run, or split, what a variable or an input holds, as a phrase.

    `nested`: the script is code for another shell, with values among its arguments and in its input.
    """
    if len(text) > LONGEST_PARSED:
        return
    script = Script(text, spans)
    nodes = script.nodes
    kept = _kept(nodes)
    fed = nested or any(node.type in _FEEDS or node.type in ("<", "<(") for node in nodes)
    yield from _textual(script.without(nodes))
    for node in nodes:
        match node.type:
            case "command":
                yield from evaluated_by([script.word(one, kept) for one in arguments_of(node)], fed=fed)
            case "declaration_command" | "unset_command" if not _is_plain_declaration(node):
                yield f"{text_of_node(node.children[0])} evaluates what it is given as a name"
            case "variable_assignment" if node.named_children and node.named_children[0].type == "subscript":
                index = text_of_node(node.named_children[0]).partition("[")[2].rstrip("]")
                if _PLAIN_INDEX.fullmatch(index) is None:
                    yield "an index is evaluated as arithmetic"
            case "variable_assignment" if DECIDES.fullmatch(text_of_node(node.named_children[0])) and _holds(
                node, kept
            ):
                yield f"{text_of_node(node.named_children[0])} decides what is run"
            case "test_command" if (operator := _evaluating_operator(node)) is not None:
                yield f"{operator} evaluates what it compares; = and != do not"
            case "simple_expansion" | "expansion" if variable_of(node) in kept and _is_split(node):
                yield f'${variable_of(node)} would be taken apart; write "${variable_of(node)}"'


def evaluated_by(words: Sequence[TemplateWord], *, fed: bool) -> Iterator[str]:
    """What one command, or code among its arguments, would run of a variable or (if `fed`) of its input."""
    if not words:
        return
    if (what := _evaluated(words, fed=fed)) is not None:
        yield what
        return
    for code in _scripts_in(words):
        yield from evaluations(code, nested=True)


def _evaluated(words: Sequence[TemplateWord], *, fed: bool) -> str | None:
    """What the command itself would run, as a phrase; None if it runs nothing of that kind."""
    inner = program_at(words)
    name, rest = bare(words[inner].text), words[inner + 1 :]
    unfixed = any(word.expands or word.holds for word in rest)
    if any(word.kept and word.expands for word in words[: inner + 1]):
        return "a variable names the program"
    if name == "eval":
        return "eval runs what variables hold"
    if name in ("source", ".", "trap") and any(word.kept or word.open or _is_input(word) for word in rest[:1]):
        return f"{name} runs what a variable holds"
    if name in _NAME_VARIABLES and (unfixed or name == "let" or any("[" in word.text for word in rest)):
        return f"{name} evaluates what it is given as a name"
    if name == "printf" and not _has_plain_format(rest):
        return "printf evaluates what it is given as a name: its format must be fixed, without %n"
    if name == "test" and any(_names_one(word, following) for word, following in pairwise(rest)):
        return "test -v evaluates what it is given as a name"
    if (puts := {bare(word.text) for word in words} & {"xargs", "parallel", "find"}) and _puts_into_code(words):
        return f"{puts.pop()} would put what it reads into shell code; give it to the shell as an argument"
    needed = 1 if PYTHON.fullmatch(name) else RUN_THEIR_INPUT.get(name, 0)
    if fed and sum(map(_names_code, rest)) < needed:
        return f"{name} runs what it reads"
    return _shell_runs(words)


def _scripts_in(words: Sequence[TemplateWord]) -> Iterator[str]:
    """The fixed code that shells are given as an argument."""
    for shell in _shells(words):
        flags, first = shells_own(words, shell)
        if first is not None and has_code(flags):
            yield words[first].text
    if words and words[0].text == "trap" and len(words) > 1:
        yield words[1].text


def _shell_runs(words: Sequence[TemplateWord]) -> str | None:
    for shell in _shells(words):
        flags, first = shells_own(words, shell)
        name = bare(words[shell].text)
        if first is None:
            return None if flags == ["--version"] else f"{name} runs what it reads"
        if has_code(flags) and (words[first].expands or words[first].holds):
            return f"{name} runs what a variable holds; write its code in single quotes and give it arguments"
        if "-s" in flags or words[first].kept or _is_input(words[first]):
            return f"{name} runs what a variable, or its input, holds"
    return None


def _shells(words: Sequence[TemplateWord]) -> Iterator[int]:
    """Indexes at which a shell is run, by itself or by a program in front; not those where its name is only text."""
    inner = program_at(words)
    runs_others = inner > 0 or bare(words[inner].text) in EVALUATE | {"find", "xargs"} if words else False
    for at, word in enumerate(words):
        if not word.holds and bare(word.text) in SHELLS and (at == inner or (at > inner and runs_others)):
            yield at


def _has_plain_format(rest: Sequence[TemplateWord]) -> bool:
    named = 2 if rest and rest[0].text == "-v" else 1
    fixed = not any(word.expands or word.holds for word in rest[:named])
    return (
        fixed
        and not any("[" in word.text for word in rest[1:named])
        and not any(re.search(r"%[^%A-Za-z]*n", word.text) for word in rest[named - 1 : named + 1])
    )


def _names_one(word: TemplateWord, following: TemplateWord) -> bool:
    return word.text in ("-v", "-R") and (following.expands or following.holds or "[" in following.text)


def _is_input(word: TemplateWord) -> bool:
    return word.text == "-" or word.text.startswith(("/dev/", "/proc/"))


def _names_code(word: TemplateWord) -> bool:
    """Whether the word is a file with code, or the flag that code follows."""
    return word.holds or not word.text.startswith("-") or word.text[1:2] in tuple("cefmr")


def _puts_into_code(words: Sequence[TemplateWord]) -> bool:
    shells = list(_shells(words))
    replaces = any(re.match(r"-I|-i|-J|--replace", word.text) for word in words)
    return bool(shells) and (replaces or any("{}" in script for script in _scripts_in(words)))


def _textual(text: str) -> Iterator[str]:
    """What is found by pattern: within quotes and here-documents the grammar does not see all of it."""
    if any(_COMPUTES.fullmatch(found[1] or found[2] or "") is None for found in _ARITHMETIC.finditer(text)):
        yield "arithmetic evaluates what its variables hold"
    if _INDIRECT.search(text):
        yield "${!…} and ${…@…} evaluate what a variable holds"
    if any(_PLAIN_SLICE.fullmatch(found[0]) is None for found in _SLICE.finditer(text)):
        yield "the numbers of ${…:…} are evaluated as arithmetic; write digits"
    if any(_PLAIN_INDEX.fullmatch(found[1]) is None for found in _INDEX.finditer(text)):
        yield "an index is evaluated as arithmetic"


def _kept(nodes: Sequence[Node]) -> frozenset[str]:
    """Variables that may hold a value: all that the script sets to anything but fixed text."""
    found = set(_ALWAYS_KEPT)
    for node in nodes:
        match node.type:
            case "variable_assignment" if re.search(r"[$`Z]|<\(", text_of_node(node).partition("=")[2]):
                found |= {re.split(r"[\[+=]", text_of_node(node), maxsplit=1)[0]}
            case "for_statement":
                values = [child for child in node.named_children[1:] if child.type != "do_group"]
                if any(re.search(r"[$`Z*?\[]", text_of_node(child)) for child in values):
                    found |= {text_of_node(node.named_children[0])}
            case "expansion" if "=" in text_of_node(node):
                found |= {variable_of(node)}
            case "command" if (words := [text_of_node(child) for child in arguments_of(node)])[:1] and words[
                0
            ] in _READERS:
                found |= set(words[1:])
            case _:
                pass
    return frozenset(found)


def _holds(node: Node, kept: frozenset[str]) -> bool:
    return any(variable_of(inner) in kept for inner in nodes_of(node) if inner.type.endswith("expansion"))


def _is_split(expansion: Node) -> bool:
    """Whether the shell splits it at blanks and matches file names with it."""
    if text_of_node(expansion).startswith("${#"):
        return False
    node: Node | None = expansion.parent
    while node is not None and node.type in ("concatenation", "command_name"):
        node = node.parent
    return node is None or node.type not in _UNSPLIT


def _is_plain_declaration(node: Node) -> bool:
    """Whether there are only fixed names, with or without a text, and no flag that makes a number or a reference."""
    for child in node.named_children:
        text = text_of_node(child)
        if child.type == "variable_assignment":
            if child.named_children[0].type != "variable_name":
                return False
        elif not re.fullmatch(r"-[aAfFglptuxr]+|\w+", text):
            return False
    return True


def _evaluating_operator(test: Node) -> str | None:
    inner = [node for node in nodes_of(test) if node != test]
    operators = {text_of_node(node) for node in inner if node.type == "test_operator"}
    varies = any(node.type in ("simple_expansion", "expansion", "command_substitution") for node in inner)
    if named := operators & {"-v", "-R"}:
        return named.pop() if varies or "[" in text_of_node(test).lstrip("[ ").rstrip("] ") else None
    numbers = operators & _NUMBERS if text_of_node(test).startswith("[[") else set()
    words = [text_of_node(node) for node in inner if node.type in ("word", "variable_name")]
    return numbers.pop() if numbers and (varies or any(not re.fullmatch(r"-?\d+|Z+", word) for word in words)) else None
