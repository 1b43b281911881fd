"""What litellm's table says about models (windows, prices, abilities), read as data and without its
import.

The table is three megabytes of JSON, a tenth of a second to parse. So it is written once into the
cache folder with one model per line, in the order of their names: there a model is found in a tenth
of a millisecond.
"""

import importlib.util
import io
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import platformdirs

from codeagent.core.model import ModelFacts
from codeagent.disk.opens import open_regular
from codeagent.disk.private import replace_private

_TABLE = "model_prices_and_context_window_backup.json"
_RULES = "fallback_generalizations"
"""Not a model: litellm's rules for names that the table does not have."""


def is_scripted(model: str) -> bool:
    """Tell whether the name stands for a model that plays turns from a file, and needs neither key
    nor money."""
    return model == "demo" or model.startswith("script:")


def context_window(model: str) -> int | None:
    """Return how many tokens a prompt may have; None if the table does not say."""
    return whole_number(entry(*spellings(model)).get("max_input_tokens"))


def facts_of(model: str) -> ModelFacts | None:
    """Return what the table knows about a model; None if it is not a chat model."""
    found = entry(*spellings(model))
    if not found:
        return ModelFacts()
    if found.get("mode", "chat") not in ("chat", "responses"):
        return None
    per_token = (found.get("input_cost_per_token"), found.get("output_cost_per_token"))
    asked, said = (round(float(each or 0) * 1_000_000, 6) for each in per_token)
    return ModelFacts(
        window=whole_number(found.get("max_input_tokens")),
        tools=bool(found.get("supports_function_calling")),
        thinking=bool(found.get("supports_reasoning")),
        images=bool(found.get("supports_vision")),
        prices=(asked, said) if per_token != (None, None) else None,
    )


def has_price(model: str) -> bool:
    """Tell whether the table has a price, or the model is scripted and costs nothing."""
    return is_scripted(model) or has_rates(entry(*spellings(model)))


def has_rates(facts: Mapping[str, Any]) -> bool:
    """Tell whether an entry has prices for tokens."""
    return "input_cost_per_token" in facts or bool(facts.get("tiered_pricing"))


def spellings(model: str) -> tuple[str, ...]:
    """Return the names under which the table may have the model: with its provider and without."""
    _, slash, bare = model.partition("/")
    return (model, bare) if slash else (model,)


def whole_number(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def entry(*names: str) -> Mapping[str, Any]:
    """Return the entry of the first of the names that the table has; empty if it has none of
    them."""
    return next((found for name in names if name != _RULES and (found := _entry(name))), {})


def routed_provider(name: str) -> str | None:
    """Return who serves a model that the table does not have, by litellm's rules for such names."""
    rules = _entry(_RULES).get("rules")
    for rule in rules if isinstance(rules, list) else ():
        match rule:
            case {"pattern": str(pattern), "model_info": {"litellm_provider": str(provider)}}:
                with suppress(re.error):
                    if re.search(pattern, name, re.IGNORECASE):
                        return provider
    return None


@lru_cache(maxsize=64)
def _entry(name: str) -> dict[str, Any]:
    table = _table()
    if table is None:
        return {}
    try:
        with _index(table) as index:
            return _looked_up(index, name)
    except (OSError, ValueError):  # the file in the cache is damaged
        return _looked_up(io.BytesIO(_rewritten(table)), name)


def _table() -> Path | None:
    spec = importlib.util.find_spec("litellm")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / _TABLE


def _index(table: Path) -> BinaryIO:
    """Open the index in the cache folder; make it if it is missing, outdated, cut, or somebody
    else's."""
    with suppress(OSError):
        file = os.fdopen(open_regular(_cached()), "rb")
        status = os.fstat(file.fileno())
        if status.st_uid == os.getuid() and file.readline() == _header(table, status.st_size):
            return file
        file.close()
    return io.BytesIO(_rewritten(table))


def _cached() -> Path:
    return platformdirs.user_cache_path("codeagent", appauthor=False) / "models.index"


def _header(table: Path, size: int) -> bytes:
    """Return the first line of an index of that many bytes. It says which state of which table it
    was made from."""
    status = table.stat()
    return (
        json.dumps(
            ["codeagent 1", str(table), status.st_size, status.st_mtime_ns, f"{size:>12}"]
        ).encode()
        + b"\n"
    )


def _rewritten(table: Path) -> bytes:
    """Make the index from the table and keep it for the next time, if the cache folder can be
    written."""
    lines = sorted(
        json.dumps(name).encode()
        + b"\t"
        + json.dumps(value, separators=(",", ":")).encode()
        + b"\n"
        for name, value in _with_aliases(json.loads(table.read_bytes())).items()
    )
    body = b"".join(lines)
    made = _header(table, len(_header(table, 0)) + len(body)) + body
    with suppress(OSError):
        replace_private(_cached(), made, synced=False)
    return made


def _with_aliases(table: dict[str, Any]) -> dict[str, Any]:
    """Add the other names that entries list for themselves; a name with an entry of its own keeps
    that."""
    named = {name: value for name, value in table.items() if isinstance(value, dict)}
    others = {
        alias: value for value in named.values() for alias in reversed(value.get("aliases") or ())
    }
    return others | named


def _looked_up(index: BinaryIO, name: str) -> dict[str, Any]:
    """Find the model among the sorted lines; empty if it is not there. Raises OSError, ValueError
    for bad lines."""
    key = json.dumps(name).encode()
    index.seek(0)
    low, high = len(index.readline()), index.seek(0, io.SEEK_END)
    while low < high:
        middle = (low + high) // 2
        index.seek(middle - 1)
        start = middle - 1 + len(index.readline())
        line = index.readline() if start < high else b""
        found, tab, value = line.partition(b"\t")
        if line and not (tab and line.endswith(b"\n")):
            raise ValueError("not a line of the index")
        if line and found == key:
            return dict(json.loads(value))
        if line and found < key:
            low = start + len(line)
        else:
            high = middle
    return {}
