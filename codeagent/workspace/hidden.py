"""Finds what the eye does not see in text that a model is told to follow."""

from codeagent.core.sanitize import visible

HIDDEN = "characters that do not show; they are given to the model as escapes"


def first_hidden(text: str) -> int | None:
    """The first line (from 1) with a character that acts or does not show; None where there is none."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    return next((number for number, line in enumerate(lines, start=1) if visible(line) != line), None)
