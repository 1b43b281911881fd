"""The hosts that commands are known to need: those of the addresses they name, and of a package
manager's registry."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from codeagent.core.dataclass import dataclass
from codeagent.core.hosts import PACKAGE_REGISTRIES, WEB_PORTS, host_name, is_address
from codeagent.tools.shell.programs import word_set

_MOST = 16
"""Hosts that one question names; the others are asked about when the command wants to reach
them."""
_ADDRESS = re.compile(
    r"(?:^|[\s='\"(])(?:git\+)?https?://([A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(?=[/?#\s'\")]|$)"
)
_OWN_INDEX = word_set("""
    -i --index-url --index --default-index --registry --no-index --offline
""")
"""Flags with which a package manager does not use its usual registry."""
_BEFORE = re.compile(r"^(?:\w+=\S*\s+)*(?:\S*/)?(?:python[0-9.]* -m (?=pip ))?")
"""What may stand before the name of a package manager."""


@dataclass(frozen=True)
class _PackageManager:
    registry: str
    """A key of PACKAGE_REGISTRIES."""
    fetching: frozenset[str]
    """The subcommands that fetch packages; empty: it always does."""


_PIP = _PackageManager("python", word_set("install download wheel"))
_PNPM = word_set("install i ci add update up dlx exec view outdated audit")
_MANAGERS = {
    "pip": _PIP,
    "pip3": _PIP,
    "uv": _PackageManager("python", word_set("add sync lock pip tool")),
    "uvx": _PackageManager("python", frozenset()),
    "pipx": _PackageManager("python", word_set("install run upgrade inject")),
    "poetry": _PackageManager("python", word_set("add install update lock")),
    "pdm": _PackageManager("python", word_set("add install sync update lock")),
    "npm": _PackageManager("npm", _PNPM),
    "pnpm": _PackageManager("npm", _PNPM),
    "npx": _PackageManager("npm", frozenset()),
    "yarn": _PackageManager("yarn", frozenset({"", "install", "add", "upgrade", "up", "dlx"})),
    "cargo": _PackageManager("rust", word_set("add fetch install update build check test run")),
    "go": _PackageManager("go", word_set("get mod install build test run")),
}


@lru_cache(maxsize=64)
def hosts_needed(commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts, at the ports of the web, that these simple commands are known to need, each
    once.

    It is no more than what can be seen: a command may reach others, about which the user is asked.
    """
    found = (host for command in commands for host in (*_named(command), *_of_registry(command)))
    return tuple(dict.fromkeys(found))[:_MOST]


def _named(command: str) -> Iterator[str]:
    """Yield the hosts of the plain addresses in the command."""
    for name, port in _ADDRESS.findall(command):
        host = host_name(name)
        if host is not None and not is_address(host) and (not port or int(port) in WEB_PORTS):
            yield host


def _of_registry(command: str) -> Sequence[str]:
    name, *rest = _BEFORE.sub("", command).split() or [""]
    manager = _MANAGERS.get(name.rpartition("/")[2])
    if manager is None or any(word.partition("=")[0] in _OWN_INDEX for word in rest):
        return ()
    subcommand = next((word for word in rest if word[0] != "-"), "")
    fetches = not manager.fetching or subcommand in manager.fetching
    return PACKAGE_REGISTRIES[manager.registry] if fetches else ()
