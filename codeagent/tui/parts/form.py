"""Card content for a form: its fields are filled in one by one and sent together."""

import json
from collections.abc import Iterator, Mapping
from functools import partial

from rich.cells import cell_len

from codeagent.core.acts import Answer
from codeagent.core.display import FormField, QuestionBlock
from codeagent.core.forms import problem_of, takes
from codeagent.core.policy import Decision
from codeagent.tui.parts.card_content import (
    CardChoice,
    Check,
    Fill,
    KeyMeaning,
    LazyMeaning,
    MarkRow,
    Say,
    Send,
    Writing,
)
from codeagent.tui.parts.line_pane import Piece
from codeagent.tui.rendering.lines import Line, cut_end, flat, line, wrap
from codeagent.tui.rendering.palette import Palette

_WIDEST_LABEL = 24
_EMPTY = "–"
_BESIDE_FIELDS = 3
"""Rows of a card that are not for fields: the question, which usually has two, and what the marked
field takes."""


def page_of(question: QuestionBlock, row: int, rows: int) -> range:
    """Return the fields that are shown together, counted from 0: as many as fit into `rows`, with
    the one at `row`."""
    size = max(1, rows - _BESIDE_FIELDS)
    first = row // size * size
    return range(first, min(first + size, len(question.fields)))


def form_pieces(
    question: QuestionBlock, texts: Mapping[str, str], row: int, shown: range
) -> Iterator[Piece]:
    """Yield a line for each of the fields shown; below the marked one is what it takes."""
    column = min(_WIDEST_LABEL, max(cell_len(flat(each.label)) for each in question.fields))
    for at in shown:
        yield partial(_row, question.fields[at], texts, at == row, column)


def form_keys(
    question: QuestionBlock, texts: Mapping[str, str], row: int, approval_id: str
) -> tuple[tuple[CardChoice, ...], dict[str, LazyMeaning]]:
    """Return the choices, and what the keys beside them do."""
    field = question.fields[row]
    last = len(question.fields) - 1
    cycles = bool(field.options) and not field.several
    write = _write(field, texts, min(last, row + 1), approval_id)
    enter: LazyMeaning = _turned(field, texts, row, approval_id, 1) if cycles else write
    beside: dict[str, LazyMeaning] = {
        "up": MarkRow(max(0, row - 1)),
        "down": MarkRow(min(last, row + 1)),
        "enter": enter,
    }
    if cycles:
        beside["left"] = _turned(field, texts, row, approval_id, -1)
        beside["right"] = _turned(field, texts, row, approval_id, 1)
    choices = (
        CardChoice("y", "send", keep=95, does=partial(_send, question, texts, approval_id)),
        CardChoice("enter", "next choice" if cycles else "fill in", keep=90),
        CardChoice(
            "n",
            "do not answer",
            keep=100,
            does=Send((Answer(approval_id, Decision("deny")),), "denied"),
        ),
    )
    return choices, beside


def text_in(field: FormField, texts: Mapping[str, str]) -> str:
    """Return what the field holds."""
    return texts.get(field.name, field.begins)


def _write(field: FormField, texts: Mapping[str, str], following: int, approval_id: str) -> Writing:
    """Let the user write; the field at `following` is marked next."""

    def judge(text: str) -> Check:
        problem = problem_of(field, text.strip())
        return Check(problem and f"{flat(field.label)}: {problem}", (takes(field),))

    return Writing(
        "question",
        approval_id,
        "answer",
        lambda text: Fill(approval_id, field.name, text.strip(), following),
        text=text_in(field, texts),
        choices=(CardChoice("enter", "fill in", keep=90), CardChoice("esc", "back")),
        placeholder=flat(field.label),
        judge=judge,
        part=field.name,
    )


def _turned(
    field: FormField, texts: Mapping[str, str], row: int, approval_id: str, by: int
) -> KeyMeaning:
    """Choose the option after or before the one that is chosen; a field that is not required may
    also be empty."""
    options = field.options if field.required else ("", *field.options)
    now = text_in(field, texts)
    outside = -1 if by > 0 else 0
    at = options.index(now) if now in options else outside
    return Fill(approval_id, field.name, options[(at + by) % len(options)], row)


def _send(question: QuestionBlock, texts: Mapping[str, str], approval_id: str) -> KeyMeaning:
    filled = {field.name: text for field in question.fields if (text := text_in(field, texts))}
    for field in question.fields:
        if problem := problem_of(field, filled.get(field.name, "")):
            return Say(f"{flat(field.label)}: {problem}")
    reason = json.dumps(filled, ensure_ascii=False)
    return Send((Answer(approval_id, Decision("once", reason=reason)),), "answered")


def _row(
    field: FormField,
    texts: Mapping[str, str],
    marked: bool,
    column: int,
    width: int,
    palette: Palette,
) -> Iterator[Line]:
    text, hint = flat(text_in(field, texts)), flat(takes(field))
    label = cut_end(flat(field.label), column)
    value = f"‹ {text or _EMPTY} ›" if field.options and not field.several else text or _EMPTY
    room = max(8, width - column - 4)
    shown = cut_end(value, room)
    parts = [
        ("› " if marked else "  ", palette.accent),
        (label + " " * (column - cell_len(label)), palette.strong if marked else palette.text),
        ("  ", None),
        (shown, palette.strong if marked else palette.text),
    ]
    if not marked and hint and room - cell_len(shown) > 10:
        parts.append((cut_end(f"   {hint}", room - cell_len(shown)), palette.muted))
    yield line(parts)
    for row in wrap([(hint, palette.muted)], max(8, width - 4)) if marked and hint else ():
        yield line([("    ", None), *row.parts])
