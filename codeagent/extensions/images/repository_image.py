"""The image that a repository describes for its own development: read and parsed here, never built
or run.

`.devcontainer/devcontainer.json`, `.devcontainer.json` or a `Dockerfile` at the top, the first of
them that is there.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Any

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import open_below, open_folder, read_regular
from codeagent.extensions.images.dockerfile import instructions

_DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")
_DOCKERFILE = "Dockerfile"
_IGNORE_FILE = ".dockerignore"
_LARGEST = 1024 * 1024
_STRING_OR = r'("(?:\\.|[^"\\])*")|'
_COMMENT = lazy_regex(_STRING_OR + r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = lazy_regex(_STRING_OR + r",(?=\s*[}\]])")
_OLD_NAMES = {"dockerFile": "dockerfile", "context": "context"}
"""Keys that were beside `build` before they were in it."""
_HARMLESS = frozenset({"name", "$schema", "customizations", "image", "build", *_OLD_NAMES})
"""Keys that are applied, or do nothing to a container."""
_OF_BUILD = frozenset({"dockerfile", "context", "args", "target"})
_HOST_VARIABLE = lazy_regex(r"\$\{")


@dataclass(frozen=True)
class RepositoryImage:
    root: Path
    """The folder that it was read in, and is built from."""
    file: str
    """Where it is described, relative to that folder, as every other path."""
    image: str = ""
    """The image itself; empty if it is built."""
    dockerfile: str = ""
    """Its path."""
    text: str = ""
    """What the Dockerfile says."""
    context: str = "."
    """The folder whose files it may copy."""
    ignore: str = ""
    """What the context's `.dockerignore` says."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    ignored: tuple[str, ...] = ()
    """What else the file asks for, and is not applied."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a Dockerfile alone, which may be meant for something else than
        development."""
        return self.file == _DOCKERFILE

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that decides what is built: what trust is given to."""
        parts = [
            self.file,
            self.image,
            self.dockerfile,
            self.text,
            self.context,
            self.ignore,
            self.target,
        ]
        return sha256(json.dumps([*parts, sorted(self.arguments.items())]).encode()).hexdigest()


def read_repository_image(root: Path) -> RepositoryImage | None:
    """Return what the repository describes, or None. No link is followed.

    Raises ConfigError if it cannot be read, or describes something that cannot be built here.
    """
    try:
        top = open_folder(root, listed=False, follow=True)
    except OSError as error:
        raise ConfigError(f"{root} cannot be read ({error.strerror})") from error
    try:
        for name in _DEVCONTAINERS:
            if (text := _read(top, name)) is not None:
                return _of_devcontainer(root, top, name, text)
        if (text := _dockerfile(top, _DOCKERFILE)) is None:
            return None
        ignore = _read(top, _IGNORE_FILE) or ""
        return RepositoryImage(root, _DOCKERFILE, dockerfile=_DOCKERFILE, text=text, ignore=ignore)
    finally:
        os.close(top)


def _of_devcontainer(root: Path, top: int, name: str, text: str) -> RepositoryImage:
    described = _parsed(name, text)
    ignored = [key for key in described if key not in _HARMLESS]
    image = described.get("image")
    build = described.get("build", {})
    if not isinstance(build, dict):
        raise ConfigError(f"{name}: build is not an object")
    build = {new: described[old] for old, new in _OLD_NAMES.items() if old in described} | build
    if "dockerfile" not in build:
        if not isinstance(image, str) or not image:
            other = (
                "; dockerComposeFile is not supported" if "dockerComposeFile" in described else ""
            )
            raise ConfigError(f"{name} names neither an image nor a Dockerfile{other}")
        if _HOST_VARIABLE.search(image):
            raise ConfigError(
                f"{name}: image takes a variable of this machine, which it does not get"
            )
        return RepositoryImage(root, name, image=image, ignored=tuple(ignored))
    ignored += [f"build.{key}" for key in build if key not in _OF_BUILD]
    arguments, left_out = _arguments(name, build.get("args", {}))
    folder = os.path.dirname(name)  # noqa: PTH120  # a path inside the workspace, which is not opened like this
    dockerfile = _inside(name, folder, build["dockerfile"])
    context = _inside(name, folder, build.get("context", "."))
    if (source := _dockerfile(top, dockerfile)) is None:
        raise ConfigError(f"{name}: {dockerfile} does not exist")
    return RepositoryImage(
        root,
        name,
        dockerfile=dockerfile,
        text=source,
        context=context,
        ignore=_read(top, _IGNORE_FILE if context == "." else f"{context}/{_IGNORE_FILE}") or "",
        arguments=arguments,
        target=_text(name, "build.target", build.get("target", "")),
        ignored=(*ignored, *left_out),
    )


def _arguments(name: str, given: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the arguments of the build, and those left out because they would read this machine's
    environment."""
    if not isinstance(given, dict):
        raise ConfigError(f"{name}: build.args is not an object")
    texts = {key: _text(name, f"build.args.{key}", value) for key, value in given.items()}
    left_out = [key for key, value in texts.items() if _HOST_VARIABLE.search(value)]
    kept = {key: value for key, value in texts.items() if key not in left_out}
    return kept, tuple(
        f"build.args.{key} (it reads this machine's environment)" for key in left_out
    )


def _text(name: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name}: {one_line(key, 80)} is not text")
    return value


def _inside(name: str, folder: str, path: Any) -> str:
    """Return a path of the file, relative to the workspace. Raises ConfigError if it leads out of
    it."""
    text = _text(name, "a path of build", path)
    joined = os.path.normpath(os.path.join(folder, text))  # noqa: PTH118  # lexically: nothing is looked at
    if joined.startswith(("/", "../")) or joined == ".." or "\0" in joined:
        raise ConfigError(f"{name}: {one_line(text, 80)} is outside this folder")
    return joined


def _parsed(name: str, text: str) -> dict[str, Any]:
    """Read JSON with comments and commas after the last element, as its users write it."""
    plain = _LAST_COMMA.sub(_kept_string, _COMMENT.sub(_kept_string, text))
    try:
        found = json.loads(plain, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not JSON: {one_line(str(error), 120)}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{name} is not an object")
    return found


def _without_doubles(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that is there twice: which of them counts is nothing that a reader could know.
    Raises ValueError."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a key is in an object twice")
    return found


def _kept_string(match: re.Match[str]) -> str:
    """Keep a string as it is; leave anything else out, with its lines, so that an error names the
    right one."""
    return match[1] if match[1] is not None else "\n" * match[0].count("\n")


def _dockerfile(top: int, name: str) -> str | None:
    """Return a Dockerfile's text; None if it does not exist. Raises ConfigError if it cannot be
    read or split."""
    if (text := _read(top, name)) is not None:
        instructions(text)
    return text


def _read(top: int, name: str) -> str | None:
    """Return a file's text; None if it does not exist. Raises ConfigError."""
    *folders, last = name.split("/")
    try:
        folder = open_below(top, folders)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{name} cannot be read ({error.strerror})") from error
    try:
        return read_regular(last, within=folder, largest=_LARGEST).decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{name} cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8") from error
    finally:
        os.close(folder)


def described(image: RepositoryImage) -> Iterator[tuple[str, str]]:
    """Yield what trust would turn on, as rows of a name and a text."""
    yield "file", image.file
    if image.image:
        yield "image", image.image
    else:
        yield "dockerfile", image.dockerfile
        yield "context", image.context
        for name, value in image.arguments.items():
            yield "argument", f"{name}={value}"
        if image.target:
            yield "target", image.target
        for each in instructions(image.text):
            yield "builds", str(each)
    if image.ignored:
        yield "not applied", ", ".join(image.ignored)
