"""The arguments of a tool that is a function: checked by its own types, kept as they came."""

import json
from typing import Any, Self

from pydantic import ConfigDict, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from codeagent.core.tool import ToolArgs


class FunctionArgs(ToolArgs):
    """Its fields are what the function gets; dumped, it is the JSON of the call.

    What a person allowed and what the log says is then exactly what was asked for, whatever the types of the function
    make of it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=False, validate_default=False, serialize_by_alias=True)

    _given: dict[str, Any] | None = PrivateAttr(default=None)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        args = super().model_validate_json(json_data, **options)
        args._given = json.loads(json_data)
        return args

    @property
    def given(self) -> dict[str, Any]:
        """The call's own arguments, plain JSON, without defaults."""
        return self.model_dump(mode="json", exclude_unset=True)

    @property
    def canonical(self) -> str:
        """One text for all spellings of the same arguments."""
        return json.dumps(self.given, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        if self._given is not None:
            return self._given
        dumped: dict[str, Any] = handler(self)
        return dumped
