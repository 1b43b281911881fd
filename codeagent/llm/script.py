"""The file format of the scripted model: a list of turns, checked before the first one plays."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from codeagent.core.errors import ConfigError

PREFIX = "script:"


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return pattern


class ScriptedError(BaseModel):
    """A provider's failure to imitate."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    status: int = Field(ge=400, le=599)
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds."""


class Turn(BaseModel):
    """One answer of the model."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, dict[str, Any] | str]] = []
    """Tool name and arguments; a string goes out as it is, malformed on purpose."""
    stop: Literal["end", "tool_calls", "length", "content_filter"] | None = None
    delay_ms: float = Field(default=0, ge=0)
    """Before each piece of the stream, in milliseconds."""
    error: ScriptedError | None = None
    """Fail after what the turn says, with this status."""
    expect: Annotated[str, AfterValidator(_regex)] | None = None
    """Searched for in the newest input; anything else ends the run with an error."""


def load_script(path: str) -> tuple[Turn, ...]:
    """The turns of the file. Raises ConfigError naming the file and the turn."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"the script {path} cannot be read: {reason}") from None
    return parse_script(text, path)


def parse_script(text: str, source: str) -> tuple[Turn, ...]:
    """As `load_script`, from the JSON text itself; `source` names it in errors."""
    try:
        turns = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the script {source} is no JSON: {error}") from None
    if not isinstance(turns, list) or not turns:
        raise ConfigError(f"the script {source} must be a list of turns, with at least one")
    return tuple(_turn(turn, f"the script {source}, turn {number}") for number, turn in enumerate(turns, start=1))


def _turn(turn: object, place: str) -> Turn:
    try:
        return Turn.model_validate_json(json.dumps(turn))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise ConfigError(f"{place}: {where + ': ' if where else ''}{first['msg']}") from None
