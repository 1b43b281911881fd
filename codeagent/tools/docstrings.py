"""What a docstring says: about the function, and about each parameter."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass

_ARGUMENTS = re.compile(r"^([ \t]*)(?:args|arguments|parameters|params):[ \t]*$", re.IGNORECASE | re.MULTILINE)
"""The heading of the Google style, which many write in their own way."""
_BLANKS = re.compile(r"[ \t]*\n[ \t]*(?=\S)")


@dataclass(frozen=True)
class Docstring:
    text: str
    """What the function does, without the sections about parameters, results and errors."""
    parameters: Mapping[str, str]
    """By name; those without a description are left out."""


def read_docstring(text: str | None) -> Docstring:
    """Google, numpy, reST and epydoc style, found out by what gives the most; anything else is all text."""
    cleaned = inspect.cleandoc(text or "").strip()
    if not cleaned:
        return Docstring("", {})
    import docstring_parser  # 20 ms that only people's tools need

    try:
        parsed = docstring_parser.parse(_ARGUMENTS.sub(r"\1Args:", text or ""))
    except docstring_parser.ParseError:
        return Docstring(cleaned, {})
    described = {
        name.strip().lstrip("*"): _one_paragraph(parameter.description)
        for parameter in parsed.params
        if parameter.args[0] != "attribute" and parameter.description
        for name in parameter.arg_name.split(",")
    }
    body = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    return Docstring(gap.join(body), described)


def _one_paragraph(text: str) -> str:
    """Lines that were broken for the source's sake are joined; blank lines stay."""
    return "\n\n".join(_BLANKS.sub(" ", part.strip()) for part in re.split(r"\n[ \t]*\n", text.strip()))
