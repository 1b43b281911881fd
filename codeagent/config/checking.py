"""Turns the content of a file into frozen dataclasses, checking every value against its annotation.

It does for plain values what pydantic does, whose import takes longer than everything else that a
start reads.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from math import inf, isfinite
from operator import ge, gt, le
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from codeagent.core.dataclass import dataclass, field_types
from codeagent.core.errors import ConfigError

KindT = TypeVar("KindT")
Path = tuple[str | int, ...]
Check = Callable[[Any], Any]
"""Used in `Annotated`: returns the value, or another in its place. Raises ValueError or ConfigError
with what is wrong."""
_Reader = Callable[[Any, Path], Any]
_ON = ("1", "on", "t", "true", "y", "yes")
_OFF = ("0", "off", "f", "false", "n", "no")
_SHOULD_BE = "Input should be "
"""How a fault begins that is about the value as a whole."""


class WrongValue(ValueError):
    """A value cannot be used; the text says what it should be."""

    def __init__(self, path: Path, text: str, *, unknown: bool = False) -> None:
        """`path` leads to the value; `unknown`: its last part is a key that does not exist."""
        super().__init__(text)
        self.path = path
        self.unknown = unknown


def checked(kind: type[KindT], value: Any, path: Path = ()) -> KindT:
    """Return the dataclass that a mapping describes; lists become tuples. Raises WrongValue for the
    first fault.

    A `from_given` of the class is called first with what was given; its `__post_init__` may raise
    ValueError.
    """
    return cast(KindT, _reader_of(kind)(value, path))


def as_given(value: Any) -> Any:
    """Return what `checked` would make this value from, in the types of JSON."""
    if is_dataclass(value):
        if (shorter := getattr(value, "as_given", None)) is not None:
            return shorter()
        return {field.name: as_given(getattr(value, field.name)) for field in fields(value)}
    match value:
        case dict():
            return {key: as_given(item) for key, item in value.items()}
        case tuple() | list():
            return [as_given(item) for item in value]
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return value


@dataclass(frozen=True, eq=False)
class AsGiven:
    """Used in `Annotated`: a check of the value as it was given, before it is read."""

    check: Check


@dataclass(frozen=True, eq=False)
class ValueCheck:
    """A check that can also be expressed in a JSON Schema."""

    holds: Callable[[Any], bool]
    said: str
    schema: Mapping[str, Any]

    def __call__(self, value: Any) -> Any:
        if not self.holds(value):
            raise ValueError(self.said)
        return value

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), **self.schema}


def above(least: float) -> ValueCheck:
    return _compared(gt, least, "greater than", "exclusiveMinimum")


def at_least(least: float) -> ValueCheck:
    return _compared(ge, least, "greater than or equal to", "minimum")


def at_most(most: float) -> ValueCheck:
    return _compared(le, most, "less than or equal to", "maximum")


def _compared(
    holds: Callable[[Any, float], bool], bound: float, words: str, key: str
) -> ValueCheck:
    said = f"{_SHOULD_BE}{words} {bound}"
    return ValueCheck(lambda value: holds(value, bound), said, {key: bound})


def matching(pattern: str, said: str) -> ValueCheck:
    """Check that a text is one line that matches the pattern; `said` is the fault of any other
    text."""
    return ValueCheck(
        lambda value: "\n" not in value and re.search(pattern, value) is not None,
        said,
        {"pattern": pattern},
    )


def filled(what: str) -> ValueCheck:
    """Check that a value is not empty; `what` it is, such as `list` or `name`, is part of the
    fault."""
    key = "minItems" if what == "list" else "minLength"
    return ValueCheck(bool, f"The {what} should not be empty", {key: 1})


def _made_reader(hint: Any) -> _Reader:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _with_checks(_reader_of(inner[0]), inner[1:])
    if origin in (Union, UnionType):
        return _one_of(inner)
    if origin is Literal:
        return _literal(inner)
    if origin is tuple:
        return _list(_reader_of(inner[0]))
    if origin is dict:
        return _table(_reader_of(inner[0]), _reader_of(inner[1]))
    if is_dataclass(hint):
        return _section(hint)
    return _SCALARS[hint]


_reader_of: Callable[[Any], _Reader] = cache(_made_reader)


def _section(kind: Any) -> _Reader:
    readers = {name: _reader_of(hint) for name, hint in field_types(kind).items()}
    needed = {
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }
    given_as = getattr(kind, "from_given", None)

    def read(value: Any, path: Path) -> Any:
        if isinstance(value, kind):
            return value
        if given_as is not None:
            value = _tried(given_as, value, path)
        if not isinstance(value, Mapping):
            raise WrongValue(path, "Input should be a valid dictionary")
        values = {}
        for name, reader in readers.items():
            if name in value:
                values[name] = reader(value[name], (*path, name))
            elif name in needed:
                raise WrongValue((*path, name), "Field required")
        for name in value:
            if name not in readers:
                raise WrongValue((*path, str(name)), "Extra inputs are not permitted", unknown=True)
        return _tried(lambda given: kind(**given), values, path)

    return read


def _tried(make: Check, value: Any, path: Path) -> Any:
    try:
        return make(value)
    except WrongValue:
        raise
    except (ValueError, ConfigError) as error:
        raise WrongValue(path, str(error)) from error


def _with_checks(reader: _Reader, checks: tuple[Check | AsGiven, ...]) -> _Reader:
    before = [each.check for each in checks if isinstance(each, AsGiven)]
    after = [each for each in checks if not isinstance(each, AsGiven)]

    def read(value: Any, path: Path) -> Any:
        for check in before:
            value = _tried(check, value, path)
        value = reader(value, path)
        for check in after:
            value = _tried(check, value, path)
        return value

    return read


def _one_of(members: tuple[Any, ...]) -> _Reader:
    """Read a value with the first member that accepts it.

    If none does, the fault lists what each expects, or is that of the member whose type the value
    has.
    """
    readers = [_reader_of(member) for member in members if member is not NoneType]

    def read(value: Any, path: Path) -> Any:
        if value is None and NoneType in members:
            return None
        faults = []
        for reader in readers:
            try:
                return reader(value, path)
            except WrongValue as fault:
                faults.append(fault)
        within = [
            fault for fault in faults if fault.path != path or not str(fault).startswith(_SHOULD_BE)
        ]
        if len(faults) == 1 or within:
            raise (within or faults)[0]
        rest = (str(fault).removeprefix(_SHOULD_BE) for fault in faults[1:])
        raise WrongValue(path, ", or ".join([str(faults[0]), *rest]))

    return read


def _literal(values: tuple[Any, ...]) -> _Reader:
    shown = [repr(value) for value in values]
    said = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"

    def read(value: Any, path: Path) -> Any:
        if not any(value == one and type(value) is type(one) for one in values):
            raise WrongValue(path, f"Input should be {said}")
        return value

    return read


def _list(reader: _Reader) -> _Reader:
    def read(value: Any, path: Path) -> Any:
        if not isinstance(value, list | tuple):
            raise WrongValue(path, "Input should be a valid list")
        return tuple(reader(item, (*path, at)) for at, item in enumerate(value))

    return read


def _table(name: _Reader, reader: _Reader) -> _Reader:
    def read(value: Any, path: Path) -> Any:
        if not isinstance(value, Mapping):
            raise WrongValue(path, "Input should be a valid dictionary")
        return {
            name(key, (*path, str(key))): reader(item, (*path, str(key)))
            for key, item in value.items()
        }

    return read


def _scalar(kind: type, said: str) -> _Reader:
    def read(value: Any, path: Path) -> Any:
        if type(value) is not kind:
            raise WrongValue(path, f"Input should be {said}")
        return value

    return read


def _switch(value: Any, path: Path) -> bool:
    """Read a boolean, in any spelling that pydantic takes for one."""
    spelled = value.lower() if isinstance(value, str) else value
    if spelled in (True, *_ON):
        return True
    if spelled in (False, *_OFF):
        return False
    raise WrongValue(path, "Input should be a valid boolean")


def _number(value: Any, path: Path) -> float:
    if type(value) not in (int, float):
        raise WrongValue(path, "Input should be a valid number")
    try:
        number = float(value)
    except OverflowError:  # an integer of some hundred digits
        number = inf
    if not isfinite(number):
        raise WrongValue(path, "Input should be a finite number")
    return number


def _moment(value: Any, path: Path) -> datetime:
    """Read a time with its zone."""
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise WrongValue(path, "Input should be a valid datetime") from None
    if found.tzinfo is None:
        raise WrongValue(path, "Input should have timezone info")
    return found


_SCALARS: Mapping[Any, _Reader] = {
    Any: lambda value, path: value,
    str: _scalar(str, "a valid string"),
    int: _scalar(int, "a valid integer"),
    bool: _switch,
    float: _number,
    datetime: _moment,
}
