"""Argument types that several tools share."""

from typing import Annotated

from pydantic import AfterValidator, Field

_LONGEST_PATH = 4096


def _path(value: str) -> str:
    if not value.strip():
        raise ValueError("the path is empty")
    if "\0" in value:
        raise ValueError("a path cannot hold a NUL character")
    if len(value.encode()) > _LONGEST_PATH or any(len(part.encode()) > 255 for part in value.split("/")):
        raise ValueError("the path is longer than a path can be")
    return value


PathText = Annotated[str, AfterValidator(_path)]
"""Relative to the workspace, or absolute inside it."""

Count = Annotated[int, Field(ge=1)]
