"""Describes every setting, with its type, meaning and value, for `/config` and the generated
reference."""

import ast
import inspect
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from codeagent.config.checking import WrongValue, as_given, checked
from codeagent.config.settings import FileSettings, Settings
from codeagent.core.dataclass import dataclass, field_types
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Reference, resolved

UNSET = "unset"
"""Given instead of a value: the setting is removed from the file."""
_FLAT = (Union, UnionType, Annotated)
_TYPED = (str, int, float, bool)


@dataclass(frozen=True, eq=False)
class Setting:
    """One setting, as it is in force."""

    name: str
    """As in the file, with the sections in front: `limits.max_turns`."""
    hint: Any
    about: str
    value: Any
    """As a type of JSON; None if it is not set."""
    origin: str
    """Where the value comes from; empty for the default."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it accepts."""
        return tuple(word for leaf in _leaves(self.hint) for word in _words(leaf))

    @property
    def is_free(self) -> bool:
        """Whether other values can be typed."""
        return any(leaf is not bool and not _words(leaf) for leaf in _leaves(self.hint))

    @property
    def is_one_value(self) -> bool:
        """Whether it can be written on one line: no table, and no list of tables."""
        inner = (
            get_args(leaf)[0] if get_origin(leaf) is tuple else leaf for leaf in _leaves(self.hint)
        )
        plain = all(leaf in _TYPED or _words(leaf) for each in inner for leaf in _leaves(each))
        return plain and self.name != "sandbox.kind"  # that one is for the command line only

    def read(self, text: str) -> Any:
        """Return the value that a text means, in TOML or plain; None to unset it. Raises
        ConfigError."""
        if text == UNSET:
            return None
        try:
            given = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            given = text
        faults = []
        for value in (given, text):
            try:
                checked(self.hint, value)
            except WrongValue as fault:
                faults.append(str(fault))
            else:
                return value
        raise ConfigError(
            f"{self.name}: {faults[0][:1].lower()}{faults[0][1:]}; nothing was changed"
        )


def every_setting(settings: Settings, sections: Mapping[str, Reference]) -> Iterator[Setting]:
    """Yield the settings of a file and of the extensions' sections, except the rules, which are
    kept in layers."""
    whole = {
        **field_types(FileSettings),
        **{name: resolved(kind) for name, kind in sections.items()},
    }
    about = field_words(FileSettings)
    for name, hint in whole.items():
        if name == "rules":
            continue
        value = settings.section(name, hint) if name in sections else getattr(settings, name)
        yield from _below(name, hint, about.get(name, ""), value, settings.origins)


def _below(
    name: str, hint: Any, about: str, value: Any, origins: Mapping[str, str]
) -> Iterator[Setting]:
    if not is_dataclass(hint):
        origin = origins.get(name, origins.get(name.partition(".")[0], ""))
        yield Setting(name, hint, about, as_given(value), origin)
        return
    words = field_words(hint)
    for inner, kind in field_types(hint).items():
        yield from _below(
            f"{name}.{inner}", kind, words.get(inner, ""), getattr(value, inner), origins
        )


def _leaves(hint: Any) -> Iterator[Any]:
    """Yield the types that a value may have, except None."""
    if get_origin(hint) not in _FLAT:
        yield from () if hint is NoneType else (hint,)
        return
    members = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    for member in members:
        yield from _leaves(member)


def _words(leaf: Any) -> tuple[str, ...]:
    if leaf is bool:
        return ("true", "false")
    return tuple(map(str, get_args(leaf))) if get_origin(leaf) is Literal else ()


def field_words(kind: Any) -> dict[str, str]:
    """Return the string below each field of a class and its bases, on one line and in the words of
    a file, which has no None."""
    found: dict[str, str] = {}
    for base in (each for each in reversed(kind.__mro__) if is_dataclass(each)):
        found |= own_words(base)
    return {name: words.replace("None", UNSET) for name, words in found.items()}


def own_words(kind: Any) -> dict[str, str]:
    """Return the string below each field that the class itself has, on one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(words.value.value.split())
        for field, words in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(words, ast.Expr)
        and isinstance(words.value, ast.Constant)
        and isinstance(words.value.value, str)
    }
