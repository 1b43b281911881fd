"""Stand-ins for some of pydantic's names: a model is built when it is first used, as importing
pydantic is slow.

A class declared with these is only recorded. Making an instance, reading an attribute or using the
class in another model builds the real one, with pydantic's own validators; instances are of that
class. Type checkers see pydantic.
"""

from collections.abc import Callable
from functools import reduce
from operator import or_
from threading import RLock
from types import GenericAlias, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

__all__ = [
    "AfterValidator",
    "BaseModel",
    "BeforeValidator",
    "ConfigDict",
    "Field",
    "JsonValue",
    "PlainSerializer",
    "built",
    "field_validator",
    "model_validator",
]

if TYPE_CHECKING:
    from pydantic import (
        AfterValidator,
        BaseModel,
        BeforeValidator,
        ConfigDict,
        Field,
        JsonValue,
        PlainSerializer,
        field_validator,
        model_validator,
    )

    def built(model: type[BaseModel]) -> type[BaseModel]: ...
else:
    ConfigDict = dict
    _BUILDING = RLock()
    _ANNOTATE = "__annotate_func__"

    class _Later:
        """Stands in for what one of pydantic's functions will return when called with the same
        arguments."""

        def __init__(
            self, name: str, args: tuple[Any, ...], options: dict[str, Any], method: Any = None
        ) -> None:
            self._name = name
            self._args = args
            self._options = options
            self._method = method

        def __call__(self, method: Any) -> "_Later":
            """Decorate a method of a model."""
            return _Later(self._name, self._args, self._options, method)

        def made(self) -> Any:
            import pydantic  # the models that are used need it

            made = getattr(pydantic, self._name)(*self._args, **self._options)
            return made if self._method is None else made(self._method)

    def _later(name: str) -> Callable[..., _Later]:
        return lambda *args, **options: _Later(name, args, options)

    Field = _later("Field")
    AfterValidator = _later("AfterValidator")
    BeforeValidator = _later("BeforeValidator")
    PlainSerializer = _later("PlainSerializer")
    field_validator = _later("field_validator")
    model_validator = _later("model_validator")

    class JsonValue:
        """Stands in for pydantic's in an annotation."""

    class _Deferred(type):
        """The metaclass of models that are only recorded."""

        def __new__(
            meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
        ) -> type:
            if (
                "__classcell__" in namespace
            ):  # a method calls `super()`, which must be that of the real class
                return _make(name, bases, namespace, options)
            made = super().__new__(
                meta, name, bases, {"__module__": namespace.get("__module__", __name__)}
            )
            made.__qualname__ = namespace.get("__qualname__", name)
            made._declared = (name, bases, dict(namespace), options)
            return made

        def __init__(
            cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
        ) -> None:
            super().__init__(name, bases, namespace)

        def __call__(cls, *args: Any, **values: Any) -> Any:
            return built(cls)(*args, **values)

        def __getattr__(cls, name: str) -> Any:
            if name.startswith("__") and name not in ("__doc__", "__match_args__"):
                raise AttributeError(
                    name
                )  # else `typing` and `inspect` would build every class that they look at
            return getattr(built(cls), name)

        def __instancecheck__(cls, instance: object) -> bool:
            made = vars(cls).get("_made")
            return made is not None and isinstance(instance, made)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(built(other), built(cls))

        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return handler.generate_schema(built(cls))

    class BaseModel(metaclass=_Deferred):
        """Stands in for pydantic's BaseModel."""

    def built(model: type) -> type:
        """Return pydantic's class for a model; the class itself if it is one already."""
        if not isinstance(model, _Deferred):
            return model
        made = vars(model).get("_made")
        if made is not None:
            return made
        with (
            _BUILDING
        ):  # a model has one class: a second one would not recognise the first one's instances
            if "_made" not in vars(model):
                model._made = _make(*model._declared)
            return model._made

    def _make(
        name: str, bases: tuple[type, ...], namespace: dict[str, Any], options: dict[str, Any]
    ) -> type:
        import pydantic  # as above

        if name == "BaseModel" and namespace["__module__"] == __name__:
            return pydantic.BaseModel
        real = {
            key: value.made() if isinstance(value, _Later) else value
            for key, value in namespace.items()
            if key != _ANNOTATE
        }
        real["__annotations__"] = {
            key: _made_of(hint) for key, hint in _annotations(namespace).items()
        }
        parents = tuple(map(built, bases))
        return type(parents[0])(name, parents, real, **options)

    def _annotations(namespace: dict[str, Any]) -> dict[str, Any]:
        """Return the annotations in the namespace of a class, in which Python 3.14 has a function
        for them."""
        from inspect import get_annotations  # as above

        kept = {key: namespace[key] for key in ("__annotations__", _ANNOTATE) if key in namespace}
        return get_annotations(type("Annotated", (), kept))

    def _made_of(hint: Any) -> Any:
        """Return an annotation with its stand-ins replaced."""
        if isinstance(hint, _Deferred):
            return built(hint)
        if hint is JsonValue:
            import pydantic  # as above

            return pydantic.JsonValue
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Annotated:
            parts = (each.made() if isinstance(each, _Later) else each for each in inner[1:])
            return Annotated[(_made_of(inner[0]), *parts)]
        if origin in (Union, UnionType):
            return reduce(or_, map(_made_of, inner))
        if isinstance(hint, GenericAlias):
            return GenericAlias(origin, tuple(map(_made_of, inner)))
        return hint
