"""Finds the word a user probably meant."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known word that is most like it, or nothing."""
    found = alike(word, known, 1)
    return f" (did you mean '{found[0]}'?)" if found else ""


def alike(word: str, known: Iterable[str], most: int) -> tuple[str, ...]:
    """At most `most` of the known words, the most similar first."""
    return tuple(difflib.get_close_matches(word, tuple(known), n=most))
