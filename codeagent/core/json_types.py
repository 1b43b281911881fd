"""JSON in the vocabulary: any value, and unions whose members a reader tells apart by one of their fields.

The vocabulary is made of plain dataclasses. Where JSON is read or written, pydantic's `TypeAdapter` takes these same
dataclasses; nothing here imports it before that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
    JsonObject = Mapping[str, JsonValue]
else:
    JsonValue = Any  # what a JSON reader makes is nothing else, so there is nothing to validate
    JsonObject = dict[str, Any]

_OTHER = "other"
_MORE = "more"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Annotates a union: `field` of the JSON object says which member it is, by the default of that member's own.

    `other` is the member that takes every object no one else does: it has `type`, and the rest of the object in `more`.
    """

    field: str
    other: type | None = None

    def __get_pydantic_core_schema__(self, union: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # only who reads or writes JSON pays for it

        members = {_default(member, self.field): member for member in get_args(union) if member is not self.other}
        choices = {value: handler.generate_schema(member) for value, member in members.items()}
        if self.other is None:
            return core_schema.tagged_union_schema(choices, discriminator=self.field)

        def tag(value: Any) -> str:
            found = value.get(self.field) if isinstance(value, dict) else getattr(value, self.field, None)
            return found if found in members else _OTHER

        choices[_OTHER] = core_schema.no_info_before_validator_function(
            _gatherer({field.name for field in fields(self.other)} - {_MORE}),
            schema := handler.generate_schema(self.other),
            serialization=core_schema.wrap_serializer_function_ser_schema(_spread, schema=schema),
        )
        return core_schema.tagged_union_schema(choices, discriminator=tag)


def _gatherer(own: set[str]) -> Callable[[Any], Any]:
    """Puts the fields of an object that are not among its `own` into its `more`."""

    def gather(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        more = {name: item for name, item in value.items() if name not in own}
        return {name: item for name, item in value.items() if name in own} | {_MORE: more}

    return gather


def _spread(value: Any, write: Any) -> Any:
    written = write(value)
    return {name: item for name, item in written.items() if name != _MORE} | written[_MORE]


def _default(member: Any, field: str) -> str:
    assert is_dataclass(member)
    return next(str(one.default) for one in fields(member) if one.name == field)
