"""API keys that are kept for the user: in the system's keyring, or in a file only they can read."""

import hashlib
import json
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.disk.locks import locked
from codeagent.disk.private import UnsafeFile, read_private, replace_private

SERVICE = "codeagent"
_VARIABLE = lazy_regex(r"[A-Z][A-Z0-9_]{1,63}")
_KEY = lazy_regex(r"[!-~]{8,4096}")
_UNREADABLE = lazy_regex("[^A-Z0-9]+")
_OF_SERVER = "SERVER_"
"""The prefix of the names under which keys of the user's own servers are kept."""
_USUAL_PORTS = {"http": 80, "https": 443}
_UNUSED = "its keys are not used: repair or remove it"
_READ_SECONDS = 2.0
_WRITE_SECONDS = 20.0
"""A keyring that is locked asks for its password, in a window of its own."""


def is_address(name: str) -> bool:
    """Tell whether a key's name is the address of the user's own server, not the variable of a
    provider."""
    return "://" in name


def server_variable(address: str) -> str:
    """Return the name under which the key of the user's own server is kept; it is not the name of a
    variable.

    It is the same for every path at one scheme, host and port.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        origin = f"{parts.scheme}://{parts.hostname}:{parts.port or _USUAL_PORTS.get(parts.scheme)}"
    except ValueError:  # not an address; that is reported once it is used
        host = ""
        origin = address
    readable = _UNREADABLE.sub("_", host.upper())[:32]
    return f"{_OF_SERVER}{readable}_{hashlib.sha256(origin.encode()).hexdigest()[:16].upper()}"


class Keyring(Protocol):
    """The calls of the keyring library that are used."""

    def get_password(self, service: str, name: str) -> str | None: ...

    def set_password(self, service: str, name: str, value: str) -> None: ...

    def delete_password(self, service: str, name: str) -> None: ...


def _system_keyring() -> Keyring:
    """Import the library, only when a key is looked for."""
    import keyring  # takes 0.1 s

    system: Any = keyring
    ring: Keyring = system
    return ring


class KeyStore:
    """Kept keys, by the environment variable each stands in for. Blocks: call it in a thread.

    The environment takes precedence, and is read elsewhere.
    """

    def __init__(self, folder: Path, open_keyring: Callable[[], Keyring] = _system_keyring) -> None:
        """`folder` is where `keys.toml` may be."""
        self.file = folder / "keys.toml"
        self._open_keyring = open_keyring

    def find(self, variable: str) -> str | None:
        """Return the keyring's key, else the file's. Raises ConfigError if the file is not safe to
        trust.

        For a server's key, the keyring, which is slow, is asked only if the file has the name.
        """
        if variable.startswith(_OF_SERVER) and variable not in self._read():
            return None
        found = _limited(
            lambda: self._open_keyring().get_password(SERVICE, variable), _READ_SECONDS
        )
        if isinstance(found, str) and found:
            return found
        return self._read().get(variable) or None

    def keep(self, variable: str, value: str) -> str:
        """Keep a key, and return where, as a phrase. Raises ConfigError."""
        value = value.strip()
        if _VARIABLE.fullmatch(variable) is None:
            raise ConfigError(
                f"{variable[:80]!r} is not the name of an environment variable; nothing was kept"
            )
        if _KEY.fullmatch(value) is None:
            raise ConfigError(
                "that is not an API key (8 or more letters, digits and signs in one piece); nothing was kept"
            )
        return self.keep_secret(variable, value)

    def keep_secret(self, variable: str, value: str) -> str:
        """Keep printable ASCII of any kind under a name like that of a variable.

        Returns where, as a phrase. Raises ConfigError.
        """

        def write_and_read() -> bool:
            ring = self._open_keyring()
            ring.set_password(SERVICE, variable, value)
            return ring.get_password(SERVICE, variable) == value

        if _limited(write_and_read, _WRITE_SECONDS) is True:
            if variable.startswith(_OF_SERVER):
                with self._changing() as kept:
                    kept[variable] = ""
            return "the system's keyring"
        with self._changing() as kept:
            kept[variable] = value
        return f"{self.file}, which only you can read"

    def forget(self, variable: str) -> None:
        """Remove what is kept under a name. Raises ConfigError if it is still there."""

        def delete_and_read() -> str | None:
            ring = self._open_keyring()
            with suppress(Exception):  # as of a key that it does not have
                ring.delete_password(SERVICE, variable)
            return ring.get_password(SERVICE, variable)

        if _limited(delete_and_read, _WRITE_SECONDS):
            raise ConfigError(
                f"{variable} is still in the system's keyring; unlock it, or remove it there"
            )
        if variable in self._read():
            with self._changing() as kept:
                kept.pop(variable, None)

    def _read(self) -> dict[str, str]:
        try:
            found = tomllib.loads((read_private(self.file) or b"").decode())
        except UnsafeFile as error:
            raise ConfigError(f"{error}; {_UNUSED}") from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{self.file} is not a TOML file; {_UNUSED}") from error
        return {name: value for name, value in found.items() if isinstance(value, str)}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """Hold the file's lock, yield its keys, and write them as they are left. Raises
        ConfigError.

        Values are printable ASCII, for which JSON's strings are TOML's.
        """
        try:
            with locked(self.file.with_suffix(".lock")):
                keys = self._read()
                yield keys
                text = "".join(
                    f"{name} = {json.dumps(value)}\n" for name, value in sorted(keys.items())
                )
                replace_private(self.file, text.encode())
        except OSError as error:
            raise ConfigError(
                f"{self.file} was not changed: it cannot be written to ({error.strerror})"
            ) from error


def _limited(work: Callable[[], object], seconds: float) -> object:
    """Return what the work returns; None if it fails or takes longer: then its thread is left
    behind.

    Backends fail in many ways, and one that waits for a dead D-Bus service waits forever.
    """
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception:
            return

    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None
