"""An event as the one line of JSON that the session log and `--output jsonl` share."""

import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from codeagent.core.events import KnownEvent, UnknownEvent, parse_event_json
from codeagent.core.redact import Redactor

_BREAKS = re.compile("[\x85\u2028\u2029]")
_STRUCTURE = {"type", "session", "agent", "call_id", "id", "approval_id", "role", "kind", "name", "binding"}


def event_json(event: KnownEvent | UnknownEvent, redactor: Redactor) -> str:
    """The event's JSON object on one line, secrets masked and lone surrogates replaced by `?`."""
    return on_one_line(_cleaned_json(event, redactor))


def on_one_line(text: str) -> str:
    """JSON without what some readers take for a line break inside its strings; it means the same."""
    return text if text.isascii() else _BREAKS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _cleaned_json(event: KnownEvent | UnknownEvent, redactor: Redactor) -> str:
    try:
        text = event.model_dump_json()
    except PydanticSerializationError:
        whole = json.dumps(event.model_dump(), ensure_ascii=False, separators=(",", ":"))
        text = whole.encode("utf-8", "replace").decode()
    cleaned = redactor.clean(text)
    if cleaned == text or _is_event(cleaned):
        return cleaned
    return json.dumps(_clean_values(json.loads(text), redactor.clean), ensure_ascii=False, separators=(",", ":"))


def _is_event(text: str) -> bool:
    try:
        parse_event_json(text)
    except ValidationError:
        return False
    return True


def _clean_values(value: Any, clean: Callable[[str], str]) -> Any:
    """Masks the free text only: a password such as `assistant` must not break the record's own words."""
    match value:
        case str():
            return clean(value)
        case list():
            return [_clean_values(item, clean) for item in value]
        case dict():
            return {
                key: item if key in _STRUCTURE and isinstance(item, str) else _clean_values(item, clean)
                for key, item in value.items()
            }
        case _:
            return value
