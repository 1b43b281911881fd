"""Writes what the user chose on the screen into their own config.toml; its comments and other
settings stay."""

import tomllib
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from codeagent.core.errors import ConfigError
from codeagent.disk.locks import locked
from codeagent.disk.private import UnsafeFile, read_owned, replace_private

Choices = Mapping[str, Any]
"""New values by setting, with the sections in front as in `limits.max_turns`; None removes one."""

ContentCheck = Callable[[dict[str, Any]], None]
"""Raises ConfigError if the content of a file cannot be used."""


def keep_choices(
    file: Path, workspace: Path, choices: Choices, check: ContentCheck = lambda content: None
) -> None:
    """Replace these settings in `file`, which is made if it is missing. Raises ConfigError and
    changes nothing if the file cannot be used, or `check` refuses the new content. Blocks."""
    if file.parent.resolve().is_relative_to(workspace.resolve()):
        raise ConfigError(f"{file.parent} lies in the workspace, where the agent could change it")
    try:
        with locked(file.with_suffix(".lock")):
            before = read_owned(file) or b""
            after = _changed(file, before, choices, check)
            if after != before:
                replace_private(file.resolve(), after)
    except UnsafeFile as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be changed ({error.strerror})") from error


def _changed(file: Path, before: bytes, choices: Choices, check: ContentCheck) -> bytes:
    from tomlkit import dumps, parse, table  # not during the start
    from tomlkit.exceptions import TOMLKitError

    try:
        text = before.decode()
        document, wanted = parse(text), tomllib.loads(text)
        for name, value in choices.items():
            *tables, key = name.split(".")
            _put(document, tables, key, value, table)
            _put(wanted, tables, key, value, dict)
        after = dumps(document)
        kept = tomllib.loads(after) == wanted
    except (TypeError, AttributeError):  # a section is not a table
        kept = False
    except (UnicodeDecodeError, TOMLKitError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid TOML: repair it first") from error
    if not kept:
        raise ConfigError(
            f"{file} is written in a way that cannot be changed here: change it yourself"
        )
    check(wanted)
    return after.encode()


def _put(
    document: MutableMapping[str, Any], tables: list[str], key: str, value: Any, new: type | Any
) -> None:
    """Set a key of a table, which is made by `new` if it is missing; None removes the key."""
    for name in tables:
        if name not in document:
            if value is None:
                return
            document[name] = new()
        document = document[name]
    if value is not None:
        document[key] = value
    else:
        document.pop(key, None)
