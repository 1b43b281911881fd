"""The standard library's `dataclass`, compiling no method before it is used: hundreds are defined
at every start.

The library compiles up to six methods for every class, which was half of the time that the imports
of a run took. Here an `__init__` is compiled when it is first looked up, and the other methods are
shared. `fields`, `replace`, `asdict` and pydantic see an ordinary dataclass. What is not supported
is refused: `InitVar`, and fields with `init=False` or `hash`.
"""

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, get_type_hints

__all__ = ["dataclass", "field_types", "record"]
KindT = TypeVar("KindT")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        eq: bool = True,
        frozen: bool = False,
        kw_only: bool = False,
        slots: bool = False,
    ) -> Any:
        """Make the class a dataclass; the options are the library's, and mean the same."""

        def make(cls: type) -> type:
            cls.__doc__ = (
                cls.__doc__ or cls.__name__
            )  # else the library inspects the signature for one
            own = set(vars(cls))
            methods: dict[str, Any] = {"__repr__": _show}
            if eq:
                methods |= {"__eq__": _equals, "__hash__": _hash if frozen else None}
            if frozen:
                methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
            if frozen and slots:
                methods |= {"__getstate__": _state, "__setstate__": _set_state}
            if eq:
                methods["_compared"] = _Compared()
            for name, method in methods.items():
                if name not in own:
                    setattr(
                        cls, name, method
                    )  # before the library: with slots, it makes a second class from this one
            made: Any = dataclasses.dataclass(
                init=False, repr=False, eq=False, kw_only=kw_only, slots=slots
            )(cls)
            _refuse_unsupported(made)
            if "__init__" not in own:
                made.__init__ = _Init(made, frozen)
            return made

        return make if cls is None else make(cls)


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
def record(cls: type[KindT]) -> type[KindT]:
    """Make the class a frozen dataclass with slots, its fields given by name, as events, messages,
    settings and manifests are."""
    return dataclass(frozen=True, kw_only=True, slots=True)(cls)


def field_types(kind: Any) -> dict[str, Any]:
    """Return the type of each field; types written as text are resolved."""
    types = {field.name: field.type for field in dataclasses.fields(kind)}
    if any(isinstance(each, str) for each in types.values()):
        types |= {
            name: hint
            for name, hint in get_type_hints(kind, include_extras=True).items()
            if name in types
        }
    return types


def _refuse_unsupported(made: Any) -> None:
    """Raise TypeError for what would otherwise be ignored."""
    for name, field in made.__dataclass_fields__.items():
        if not field.init or field.hash is not None:
            raise TypeError(
                f"{made.__qualname__}.{name}: init=False and hash are not supported here"
            )
        if isinstance(field.type, dataclasses.InitVar):
            raise TypeError(f"{made.__qualname__}.{name}: InitVar is not supported here")


class _Init:
    """Stands in for a class's `__init__`, which is compiled when it is first looked up and then
    replaces this."""

    def __init__(self, made: type, frozen: bool) -> None:
        self._made = made
        self._frozen = frozen

    def __get__(self, instance: object, owner: type) -> Any:
        init = _compiled_init(
            self._made, self._frozen
        )  # two threads may both do so, to the same effect
        self._made.__init__ = init  # type: ignore[misc]  # it is what replaces this
        return init.__get__(instance, owner)


class _Compared:
    """Stands in for the getter of the fields that count for equality, which replaces this when it
    is looked up."""

    def __get__(self, instance: object, owner: Any) -> Any:
        kind = next(each for each in owner.__mro__ if vars(each).get("_compared") is self)
        names = [field.name for field in dataclasses.fields(kind) if field.compare]
        kind._compared = attrgetter(*names or ["__class__"])
        return kind._compared


def _compiled_init(made: type, frozen: bool) -> Any:
    known: dict[str, Any] = {"_put": object.__setattr__, "_missing": dataclasses.MISSING}
    positional, by_name, body = ["self"], ["*"], []
    for field in dataclasses.fields(made):
        value, default = field.name, ""
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{field.name}"] = field.default_factory
            value, default = (
                f"_make_{field.name}() if {field.name} is _missing else {field.name}",
                "=_missing",
            )
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{field.name}"], default = field.default, f"=_default_{field.name}"
        (by_name if field.kw_only else positional).append(field.name + default)
        body.append(
            f"  _put(self, {field.name!r}, {value})" if frozen else f"  self.{field.name} = {value}"
        )
    if hasattr(made, "__post_init__"):
        body.append("  self.__post_init__()")
    arguments = ", ".join(positional + (by_name if len(by_name) > 1 else []))
    exec(f"def __init__({arguments}):\n" + "\n".join(body or ["  pass"]), known)
    init = known["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__module__ = made.__module__
    return init


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


@recursive_repr()
def _show(self: Any) -> str:
    shown = (
        f"{field.name}={getattr(self, field.name)!r}"
        for field in dataclasses.fields(self)
        if field.repr
    )
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
