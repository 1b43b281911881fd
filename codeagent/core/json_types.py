"""JSON in the vocabulary: any value, the envelope of every event, and unions with a discriminating
field.

The vocabulary consists of plain dataclasses. Where JSON is read, pydantic's `TypeAdapter` uses
these same dataclasses; nothing here imports it before that. `core.event_json` writes them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from codeagent.core.dataclass import dataclass, record

if TYPE_CHECKING:
    JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
    JsonObject = Mapping[str, JsonValue]
else:
    JsonValue = Any  # a JSON reader produces nothing else, so there is nothing to validate
    JsonObject = dict[str, Any]

UNSTAMPED = -1
"""Number and time of an event that has not been emitted yet."""
MAIN = "main"
"""The name of the agent that the user talks to, on its events."""
_OTHER = "other"
_MORE = "more"


@record
class BaseEvent:
    """The envelope of every event. Whoever makes an event leaves it out; the emitter fills it
    in."""

    durable: ClassVar[bool] = True
    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    v: int = 1
    """Version of the format."""
    seq: int = UNSTAMPED
    """Strictly increasing within a session; deltas that are merged or not logged leave gaps."""
    ts: float = UNSTAMPED
    """Seconds since the epoch, UTC. Order is `seq`, never `ts`."""
    session: str = ""
    agent: str = MAIN


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How the JSON of a dataclass differs from one key for each field; the class has it as
    `json_form`."""

    omitted: Collection[str] = ()
    """Fields that are left out if they have their default, as in older logs."""
    inner: str = ""
    """The key of an object that holds all fields but `outside`."""
    outside: Collection[str] = ()
    spread: str = ""
    """The field whose items are written beside the other fields."""

    def applied(self, whole: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON of an instance from that with one key for each field; the form has
        `inner` or `spread`."""
        if self.spread:
            beside: dict[str, Any] = whole[self.spread]
            return {key: item for key, item in whole.items() if key != self.spread} | beside
        own = {key: item for key, item in whole.items() if key not in self.outside}
        return {key: item for key, item in whole.items() if key in self.outside} | {self.inner: own}


WITH_MORE = JsonForm(spread="more")
"""For what a newer version wrote: the fields that are unknown here are in `more`."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Annotates a union: `field` of the JSON object selects the member that has this value as its
    default.

    `then` is a second such field for members that agree in the first. Where the rest does not fit
    the member that has both, the one that has only the first takes it. `other` takes every object
    no one else does: it has `type`, and the rest of the object in `more`.
    """

    field: str
    then: str | None = None
    other: type | None = None

    def __get_pydantic_core_schema__(self, union: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # only code that reads or writes JSON pays for it

        members = [member for member in get_args(union) if member is not self.other]
        first = {
            _default(one, self.field): one
            for one in members
            if not (self.then and _default(one, self.then))
        }
        choices = {value: handler.generate_schema(member) for value, member in first.items()}
        for member in members:
            if member not in first.values():
                general = _default(member, self.field)
                special = handler.generate_schema(member)
                choices[f"{general} {_default(member, self.then)}"] = core_schema.union_schema(
                    [special, choices[general]], mode="left_to_right"
                )
        if self.other is None:
            return core_schema.tagged_union_schema(choices, discriminator=self.field)

        def tag(value: Any) -> str:
            read = value.get if isinstance(value, dict) else partial(_attribute, value)
            found = str(read(self.field))  # a line from elsewhere may hold anything there
            if self.then is not None and (both := f"{found} {read(self.then)}") in choices:
                return both
            return found if found in first else _OTHER

        choices[_OTHER] = _with_more(self.other, handler.generate_schema(self.other))
        return core_schema.tagged_union_schema(choices, discriminator=tag)


def kept_in(name: str, kind: type, schema: Any, *, outside: type) -> Any:
    """Return the schema of a dataclass whose fields, except those of `outside`, are in an object
    `name` in JSON."""
    plain = {field.name for field in fields(outside)}
    own = {field.name for field in fields(kind)} - plain

    def read(value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(inner := value.get(name, {}), dict):
            return value
        return {key: item for key, item in value.items() if key in plain} | {
            key: item for key, item in inner.items() if key in own
        }

    return _reshaped(schema, read)


def _with_more(kind: type, schema: Any) -> Any:
    """Return the schema of a dataclass whose `more` holds all fields of the object that it does not
    have itself."""
    own = {field.name for field in fields(kind)} - {_MORE}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        more = {name: item for name, item in value.items() if name not in own}
        return {name: item for name, item in value.items() if name in own} | {_MORE: more}

    return _reshaped(schema, read)


def _reshaped(schema: Any, read: Callable[[Any], Any]) -> Any:
    from pydantic_core import core_schema  # as above

    return core_schema.no_info_before_validator_function(read, schema)


def _attribute(value: Any, name: str) -> Any:
    return getattr(value, name, None)


def _default(member: Any, field: str | None) -> str | None:
    """Return the field's default; None if the member has no such field, or no default for it."""
    assert is_dataclass(member)
    return next(
        (
            one.default
            for one in fields(member)
            if one.name == field and isinstance(one.default, str)
        ),
        None,
    )
