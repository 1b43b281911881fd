"""Finds the word a person probably meant."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known word that is most like it, or nothing."""
    found = difflib.get_close_matches(word, tuple(known), n=1)
    return f" (did you mean '{found[0]}'?)" if found else ""
