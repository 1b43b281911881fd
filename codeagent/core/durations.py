"""Durations that are written as text, such as `30s` or `1h30m`."""

import re
from typing import Any

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in each unit."""
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|[smhd])", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def as_seconds(value: Any) -> Any:
    """Return the seconds of a duration in text; anything else is returned as it is, for the caller
    to check.

    Raises ValueError for text that is not a duration.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _WHOLE.fullmatch(text) is None:
        raise ValueError("write seconds as a number, or a duration such as 30s, 5m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
