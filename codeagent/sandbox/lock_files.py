"""The packages that a repository's lock files name, each with its hash, and where they would be
fetched from."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import read_regular

PYPI = "https://pypi.org/simple"
NPM = "https://registry.npmjs.org"
_PYTHON = ("uv.lock", "requirements.lock", "requirements.txt")
_NODE = ("package-lock.json", "npm-shrinkwrap.json")
_PACKAGE = "package.json"
LOCK_FILES = (*_PYTHON, *_NODE)
LARGEST_LOCK = 32 * 1024 * 1024
_BESIDE = {"pypi.org": ("files.pythonhosted.org",)}
"""Hosts that an index's own pages lead to."""
_HOST = lazy_regex(r"[a-z0-9.-]+")
_DEPENDENCIES = (
    "name",
    "version",
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "overrides",
    "engines",
)
"""What npm needs of a package.json: above all, no scripts."""
_INDEX = lazy_regex(r"(?:-i|--index-url|--extra-index-url)[ =]\s*(\S+)")
_PINNED = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*==\s*[^\s;#]+")
_OPTION = lazy_regex(r"\s-(?!-hash[= ])")
_HASH = lazy_regex(r"\s--hash[= ]sha(?:256|384|512):[0-9a-f]{64,128}\b")


@dataclass(frozen=True)
class PythonPackage:
    """One package of a uv.lock."""

    requirement: str
    """As pip takes it, with its hashes."""
    needs: tuple[tuple[str, str, str], ...] = ()
    """Name and version (empty: the only one) of what it needs, and the marker under which it
    does."""


@dataclass(frozen=True)
class Lock:
    file: str
    kind: Literal["python", "node"]
    digest: str
    """SHA-256 (hex) of all that it was read from."""
    count: int
    """How many packages it names, for whichever machine."""
    indexes: tuple[str, ...]
    """Addresses, the first of them the main one."""
    hosts: tuple[str, ...]
    """What has to be reached: the indexes, and where their files are."""
    is_own: bool = False
    """The user named the index, which may therefore have an address that is not public."""
    text: str = ""
    """What the installer is given; empty for a uv.lock, see `packages`."""
    manifest: str = ""
    """The package.json beside a lock of npm, without scripts."""
    packages: Mapping[tuple[str, str], PythonPackage] = field(default_factory=dict)
    """Of a uv.lock, by name and version."""
    roots: tuple[tuple[str, str, str], ...] = ()
    """What the project itself needs, see `PythonPackage.needs`."""
    left_out: tuple[str, ...] = ()
    """Packages without a hash, such as those from a repository."""

    def at(self, index: str) -> "Lock":
        """The same packages from the user's own index, such as a mirror, and from no other host.
        Raises ConfigError."""
        _check_address("the index", index)
        return replace(
            self, indexes=(index,), hosts=tuple(dict.fromkeys(_hosts([index]))), is_own=True
        )


def read_locks(root: Path) -> tuple[Lock, ...]:
    """Return the first lock of Python and the first of npm. Raises ConfigError if one cannot be
    used."""
    found = []
    for names, read in ((_PYTHON, _python), (_NODE, _node)):
        for name in names:
            if (data := _read(root / name)) is not None and (
                lock := read(root, name, data)
            ) is not None:
                found.append(lock)
                break
    return tuple(found)


def requirements(lock: Lock, environment: Mapping[str, str]) -> str:
    """Return what pip is given; `environment` holds the values of markers where it will run."""
    if lock.text:
        return lock.text
    return "\n".join(sorted(_needed(lock, environment))) + "\n"


def _needed(lock: Lock, environment: Mapping[str, str]) -> set[str]:
    from packaging.markers import (
        InvalidMarker,
        Marker,
        UndefinedComparison,
    )  # 20 ms, for one command

    def holds(marker: str) -> bool:
        try:
            return not marker or Marker(marker).evaluate({**environment, "extra": ""})
        except (InvalidMarker, UndefinedComparison) as error:
            raise ConfigError(
                f"{lock.file}: the marker {one_line(marker, 80)} cannot be read"
            ) from error

    by_name: dict[str, list[tuple[str, str]]] = {}
    for key in lock.packages:
        by_name.setdefault(key[0], []).append(key)
    pending = list(lock.roots)
    seen = set[tuple[str, str]]()
    while pending:
        name, version, marker = pending.pop()
        if not holds(marker):
            continue
        for key in by_name.get(name, ()):
            if key not in seen and version in ("", key[1]):
                seen.add(key)
                pending += lock.packages[key].needs
    return {lock.packages[key].requirement for key in seen if lock.packages[key].requirement}


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path, largest=LARGEST_LOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read ({error.strerror or error})") from error


def _python(root: Path, name: str, data: bytes) -> Lock | None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8") from error
    return _of_uv(name, text) if name == "uv.lock" else _of_pip(name, text)


def _of_pip(name: str, text: str) -> Lock | None:
    """Read requirements that are all pinned with hashes; None if none of them has one.

    Only packages are passed on, so that no option of the file reaches pip.
    """
    if not _HASH.search(text):
        return None
    indexes = []
    wanted = []
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        if not line:
            continue
        if (index := _INDEX.fullmatch(line)) is not None:
            indexes.append(index[1])
        elif not _PINNED.match(line) or not _HASH.search(line) or _OPTION.search(line):
            raise ConfigError(
                f"{name}: {one_line(line, 80)} is not a package pinned with ==, with its hash"
            )
        else:
            wanted.append(" ".join(line.split()))
    return _lock(
        name,
        "python",
        text,
        indexes=indexes or [PYPI],
        count=len(wanted),
        text="\n".join(wanted) + "\n",
    )


def _of_uv(name: str, text: str) -> Lock:
    try:
        listed = [dict(each) for each in tomllib.loads(text).get("package", [])]
        packages: dict[tuple[str, str], PythonPackage] = {}
        roots: list[tuple[str, str, str]] = []
        indexes = []
        files = []
        left_out = []
        for each in listed:
            source = each.get("source", {})
            if "registry" in source:
                made = [*each.get("wheels", []), *([each["sdist"]] if "sdist" in each else [])]
                hashes = " ".join(sorted(f"--hash={file['hash']}" for file in made))
                indexes.append(source["registry"])
                files += [file["url"] for file in made if "url" in file]
                requirement = f"{each['name']}=={each['version']} {hashes}"
                packages[each["name"], each["version"]] = PythonPackage(requirement, _edges(each))
            else:
                if "virtual" in source or "editable" in source:
                    roots += _edges(each)
                else:
                    left_out.append(each["name"])
                packages[each["name"], each.get("version", "")] = PythonPackage("", _edges(each))
    except (
        tomllib.TOMLDecodeError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
    ) as error:
        raise ConfigError(f"{name} cannot be read: {one_line(str(error), 120)}") from error
    if not all(
        re.fullmatch(r"[A-Za-z0-9._-]+==\S+( --hash=sha\d+:[0-9a-f]+)+", one.requirement)
        for one in packages.values()
        if one.requirement
    ):
        raise ConfigError(f"{name}: a package has no hash")
    count = sum(bool(one.requirement) for one in packages.values())
    return _lock(
        name,
        "python",
        text,
        indexes=dict.fromkeys(indexes or [PYPI]),
        files=files,
        count=count,
        packages=packages,
        roots=tuple(roots),
        left_out=tuple(left_out),
    )


def _edges(package: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Return what a package of a uv.lock needs, with every group and extra that the lock has of
    it."""
    found: list[tuple[str, str, str]] = []
    for key in ("dependencies", "optional-dependencies", "dev-dependencies"):
        value = package.get(key, [])
        for group in value.values() if isinstance(value, dict) else [value]:
            found += [
                (each["name"], each.get("version", ""), each.get("marker", "")) for each in group
            ]
    return tuple(found)


def _node(root: Path, name: str, data: bytes) -> Lock | None:
    manifest = _read(root / _PACKAGE)
    if manifest is None:
        return None
    try:
        text = data.decode()
        described = json.loads(manifest)
        listed = json.loads(text)["packages"]
        installed = {path: each for path, each in listed.items() if path and not each.get("link")}
        resolved = [each["resolved"] for each in installed.values() if "resolved" in each]
        bare = [path for path, each in installed.items() if "integrity" not in each]
        kept = {key: described[key] for key in _DEPENDENCIES if key in described}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{name} cannot be read: npm 7 or later makes one that can ({error!r:.80})"
        ) from error
    if bare or not all(isinstance(url, str) and url.startswith("https://") for url in resolved):
        which = bare[0] if bare else "a package"
        raise ConfigError(f"{name}: {one_line(which, 80)} has no hash, or is not from a registry")
    plain = json.dumps(kept)
    return _lock(
        name,
        "node",
        text + plain,
        indexes=[NPM],
        files=resolved,
        count=len(installed),
        text=text,
        manifest=plain,
    )


def _lock(
    name: str,
    kind: Literal["python", "node"],
    read: str,
    *,
    indexes: Iterable[str],
    files: Iterable[str] = (),
    **more: Any,
) -> Lock:
    addresses = tuple(dict.fromkeys(indexes))
    if kind == "python" and not (more.get("text") or more.get("roots")):
        raise ConfigError(f"{name} names no project whose packages could be installed")
    for address in addresses:
        _check_address(name, address)
    hosts = tuple(dict.fromkeys(_hosts([*addresses, *files])))
    digest = sha256(read.encode()).hexdigest()
    return Lock(name, kind, digest, indexes=addresses, hosts=hosts, **more)


def _check_address(where: str, address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or parts.username is not None or not address.isascii():
        raise ConfigError(f"{where}: {one_line(address, 80)} is not the plain address of an index")


def _hosts(addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        parts = urlsplit(address)
        host = parts.hostname or ""
        if _HOST.fullmatch(host) is None:
            raise ConfigError(f"{one_line(address, 80)} names no host")
        yield host if parts.port in (None, 80, 443) else f"{host}:{parts.port}"
        yield from _BESIDE.get(host, ())
