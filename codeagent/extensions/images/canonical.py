"""Writes the Dockerfile that the engine gets in a build without network: one that cannot fetch,
whatever it is made of.

The engine never reads the repository's own text. Every instruction is written again in one form
that all engines read alike: on one line, with variables already replaced, commands and paths as
arrays in JSON, images by the ID of one that is on this machine, and stages by names of our own.
What has no such form is refused.
"""

import posixpath
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import one_line
from codeagent.extensions.images.dockerfile import (
    SCRATCH,
    Dockerfile,
    DockerfileError,
    Instruction,
    declared,
    expand,
    first_word,
    pairs,
    read_dockerfile,
    stage,
    texts,
    words,
)
from codeagent.sandbox.dockerfile_words import array, image_id, whole_line, word
from codeagent.sandbox.engine import ImageDetails
from codeagent.sandbox.profile import DEFAULT_PATH

_LONGEST = 60_000
"""Characters of a line that every engine reads."""
_KEY = lazy_regex(r"[A-Za-z0-9_./][A-Za-z0-9_./:@+-]*")
_OWNER = lazy_regex(r"[A-Za-z0-9_.-]+(?::[A-Za-z0-9_.-]+)?")
_RIGHTS = lazy_regex(r"[0-7]{3,4}")
_DURATION = lazy_regex(r"[0-9a-zµ.]+")
_PORT = lazy_regex(r"[0-9A-Za-z][0-9A-Za-z./:-]*")
_REMOTE = lazy_regex(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)
_HEALTH = ("interval", "timeout", "start-period", "start-interval", "retries")
_SHELL = ("/bin/sh", "-c")
_WILDCARDS = frozenset("*?[\\")


@dataclass(frozen=True)
class BuildStep:
    line: str
    """As the engine gets it."""
    shown: str
    """The instruction of the repository that it is for."""


@dataclass(frozen=True)
class _Stage:
    number: int
    named: str
    """As the repository names it, in small letters."""
    variables: dict[str, str]
    shell: tuple[str, ...]
    arguments: dict[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"stage{self.number}"

    def value_of(self, name: str) -> str | None:
        return self.variables[name] if name in self.variables else self.arguments.get(name)


def canonical(
    text: str,
    arguments: Mapping[str, str],
    target: str,
    details_of: Callable[[str], ImageDetails],
    context: Mapping[str, bytes],
) -> tuple[BuildStep, ...]:
    """Write a Dockerfile again, up to the stage `target`, empty: to its end.

    `details_of`: tells of an image on this machine, and raises if it may not be used. `context`:
    the paths that may be copied, each with its type as in a tar. Raises DockerfileError.
    """
    file = read_dockerfile(text)
    writer = _Writer(file, arguments, details_of, context)
    for each in file.instructions:
        if each.name == "FROM" and target and writer.is_at(target):
            break
        writer.add(each)
    if not writer.steps:
        raise DockerfileError("the Dockerfile has no instructions")
    if target and not writer.is_at(target):
        raise DockerfileError(f"the Dockerfile has no stage {one_line(target, 60)}")
    return tuple(writer.steps)


class _Writer:
    """Writes instruction after instruction; `steps` is what it has written."""

    def __init__(
        self,
        file: Dockerfile,
        arguments: Mapping[str, str],
        details_of: Callable[[str], ImageDetails],
        context: Mapping[str, bytes],
    ) -> None:
        self.steps: list[BuildStep] = []
        self._escape = file.escape
        self._given = arguments
        self._details_of = details_of
        self._context = context
        self._global: dict[str, str | None] = {}
        self._stages: list[_Stage] = []

    def is_at(self, target: str) -> bool:
        return bool(self._stages) and self._stages[-1].named == target.lower()

    def add(self, each: Instruction) -> None:
        """Raises DockerfileError."""
        write = _FORMS.get(each.name)
        if write is None:
            raise each.refuse("this instruction is not supported")
        if not self._stages and each.name not in ("ARG", "FROM"):
            raise each.refuse("it comes before FROM")
        try:
            lines = list(write(self, each))
        except ValueError as error:
            raise each.refuse(str(error)) from error
        for line in lines:
            if len(line) > _LONGEST:
                raise each.refuse("it is longer than an engine reads")
            self.steps.append(BuildStep(line, each.shown))

    @property
    def _stage(self) -> _Stage:
        return self._stages[-1]

    def _expanded(self, each: Instruction, text: str) -> str:
        return expand(each, text, self._escape, self._stage.value_of)

    def from_(self, each: Instruction) -> Iterator[str]:
        base, named = stage(each, self._escape, self._global.get)
        if named and any(other.named == named for other in self._stages):
            raise each.refuse("another stage has this name")
        earlier = next((other for other in self._stages if other.named == base.lower()), None)
        platform = each.flags("platform")[0].get("platform")
        if earlier is not None:
            source = earlier.name
            is_for = ""
            variables = earlier.variables
            shell = earlier.shell
        elif base == SCRATCH:
            source = SCRATCH
            is_for = ""
            variables = {}
            shell = _SHELL
        else:
            details = self._details_of(base)
            source = image_id(details)
            is_for = details.platform
            variables = {
                name: value for name, _, value in (one.partition("=") for one in details.variables)
            }
            shell = details.shell or _SHELL
        if (
            platform is not None
            and expand(each, platform, self._escape, self._global.get) != is_for
        ):
            raise each.refuse("on this machine it is for another platform")
        made = _Stage(len(self._stages), named, {"PATH": DEFAULT_PATH} | variables, shell)
        self._stages.append(made)
        yield f"FROM {source} AS {made.name}"

    def arg(self, each: Instruction) -> Iterator[str]:
        if not self._stages:
            self._global |= declared(each, self._escape, self._given, self._global.get)
            return
        for name, value in declared(each, self._escape, self._given, self._stage.value_of).items():
            self._stage.arguments[name] = known = self._global.get(name) if value is None else value
            yield f"ARG {name}" if known is None else f"ARG {name}={word(known)}"

    def env(self, each: Instruction) -> Iterator[str]:
        found = pairs(each, self._escape, self._stage.value_of)
        yield f"ENV {_written(each, found)}"
        self._stage.variables.update(found)

    def label(self, each: Instruction) -> Iterator[str]:
        yield f"LABEL {_written(each, pairs(each, self._escape, self._stage.value_of))}"

    def copy(self, each: Instruction) -> Iterator[str]:
        flags, sources, target = self._paths(each, "from", "chown", "chmod")
        begun = f"COPY{self._from_flag(each, flags)}{self._flags_of_files(each, flags)}"
        yield f"{begun} {array([*(word(_in_context(source)) for source in sources), word(target)])}"

    def add_(self, each: Instruction) -> Iterator[str]:
        """Copy what is not a file, and give the engine the files alone, which it unpacks if they
        are archives."""
        flags, sources, target = self._paths(each, "chown", "chmod")
        if (remote := next(filter(_REMOTE.match, sources), None)) is not None:
            raise each.refuse(f"{one_line(remote, 80)} needs the network")
        found = [path for source in sources for path in self._found(each, source)]
        if len(found) > 1 and not target.endswith("/"):
            raise each.refuse("with more than one source, the target must end with /")
        for path in found:
            kind = tarfile.DIRTYPE if path == "." else self._context[path]
            if kind == tarfile.SYMTYPE or not _WILDCARDS.isdisjoint(path):
                raise each.refuse(
                    f"{one_line(path, 80)} is a link, or has a name that ADD cannot be given: use COPY"
                )
            begun = (
                f"{'ADD' if kind == tarfile.REGTYPE else 'COPY'}{self._flags_of_files(each, flags)}"
            )
            yield f"{begun} {array([word(f'./{path}' if path != '.' else path), word(target)])}"

    def command(self, each: Instruction) -> Iterator[str]:
        """As an array, which the engine takes as it is; a text becomes the shell's, as the engine
        would do it."""
        _, text = each.flags()
        program = texts(each, text)
        if not text or (each.name == "RUN" and program == []):
            raise each.refuse("it names no command")
        yield f"{each.name} {array([*self._stage.shell, text] if program is None else program)}"

    def healthcheck(self, each: Instruction) -> Iterator[str]:
        flags, text = each.flags(*_HEALTH)
        if any(_DURATION.fullmatch(value) is None for value in flags.values()):
            raise each.refuse("a flag is not a number or a duration")
        kind, command = first_word(text)
        kind = kind.upper()
        if (kind, bool(command)) not in (("CMD", True), ("NONE", False)):
            raise each.refuse("it is neither NONE nor CMD with a command")
        begun = " ".join(
            ("HEALTHCHECK", *(f"--{name}={value}" for name, value in flags.items()), kind)
        )
        program = texts(each, command)
        if kind == "NONE":
            yield begun
        else:
            yield f"{begun} {whole_line(command) if program is None else array(program)}"

    def maintainer(self, each: Instruction) -> Iterator[str]:
        yield f"MAINTAINER {whole_line(each.flags()[1])}"

    def shell(self, each: Instruction) -> Iterator[str]:
        if not (program := texts(each, each.flags()[1])):
            raise each.refuse("it is not an array of texts")
        self._stages[-1] = replace(self._stage, shell=tuple(program))
        yield f"SHELL {array(program)}"

    def one_word(self, each: Instruction) -> Iterator[str]:
        if not (text := self._expanded(each, each.flags()[1])):
            raise each.refuse("it has no value")
        yield f"{each.name} {word(text)}"

    def expose(self, each: Instruction) -> Iterator[str]:
        ports = [
            port for one in words(each.flags()[1]) for port in words(self._expanded(each, one))
        ]
        if not ports or any(_PORT.fullmatch(port) is None for port in ports):
            raise each.refuse("it is not a list of ports")
        yield f"EXPOSE {' '.join(ports)}"

    def volume(self, each: Instruction) -> Iterator[str]:
        text = each.flags()[1]
        listed = texts(each, text)
        folders = [self._expanded(each, one) for one in (words(text) if listed is None else listed)]
        if not all(folders) or not folders:
            raise each.refuse("it names no folder")
        yield f"VOLUME {array([word(folder) for folder in folders])}"

    def _paths(self, each: Instruction, *allowed: str) -> tuple[dict[str, str], list[str], str]:
        """Return the flags, the sources and the target of COPY or ADD."""
        flags, text = each.flags(*allowed)
        listed = texts(each, text)
        paths = [self._expanded(each, one) for one in (words(text) if listed is None else listed)]
        if len(paths) < 2 or not all(paths):
            raise each.refuse("it needs a source and a target")
        if any(path.startswith("<<") for path in paths):
            raise each.refuse("a file written into the Dockerfile is not supported")
        return flags, paths[:-1], paths[-1]

    def _from_flag(self, each: Instruction, flags: Mapping[str, str]) -> str:
        if "from" not in flags:
            return ""
        name = flags["from"]
        named = [
            other
            for other in self._stages[:-1]
            if name and name.lower() in (other.named, str(other.number))
        ]
        if named:
            return f" --from={named[0].name}"
        if not name or "$" in name or name.isdecimal() or name.lower() == self._stage.named:
            raise each.refuse("it names neither an image nor a stage before it")
        return f" --from={image_id(self._details_of(name))}"

    def _flags_of_files(self, each: Instruction, flags: Mapping[str, str]) -> str:
        found = ""
        for name, form in (("chown", _OWNER), ("chmod", _RIGHTS)):
            if name not in flags:
                continue
            value = self._expanded(each, flags[name])
            if form.fullmatch(value) is None:
                raise each.refuse(f"--{name} is neither names nor numbers")
            found += f" --{name}={value}"
        return found

    def _found(self, each: Instruction, source: str) -> list[str]:
        """Return the paths of the context that a source of ADD names, which may have wildcards."""
        path = posixpath.normpath(source.lstrip("/") or ".")
        if "[" in path or "\\" in path:
            raise each.refuse("this pattern is not supported: name the files")
        parts = path.split("/")
        if path == ".":
            return ["."]
        found = sorted(
            other
            for other in self._context
            if len(names := other.split("/")) == len(parts) and all(map(fnmatchcase, names, parts))
        )
        if not found:
            raise each.refuse(f"{one_line(source, 80)} is not among the files that may be copied")
        return found


def _in_context(path: str) -> str:
    """Return the path in a form that cannot be an address."""
    return path if path.startswith(("/", ".")) else f"./{path}"


def _written(each: Instruction, found: Mapping[str, str]) -> str:
    if (wrong := next((name for name in found if _KEY.fullmatch(name) is None), None)) is not None:
        raise each.refuse(f"{one_line(wrong, 40)} is not supported as a name")
    return " ".join(f"{name}={word(value)}" for name, value in found.items())


_FORMS: Mapping[str, Callable[[_Writer, Instruction], Iterator[str]]] = {
    "FROM": _Writer.from_,
    "ARG": _Writer.arg,
    "ENV": _Writer.env,
    "LABEL": _Writer.label,
    "COPY": _Writer.copy,
    "ADD": _Writer.add_,
    "RUN": _Writer.command,
    "CMD": _Writer.command,
    "ENTRYPOINT": _Writer.command,
    "HEALTHCHECK": _Writer.healthcheck,
    "MAINTAINER": _Writer.maintainer,
    "SHELL": _Writer.shell,
    "WORKDIR": _Writer.one_word,
    "USER": _Writer.one_word,
    "STOPSIGNAL": _Writer.one_word,
    "EXPOSE": _Writer.expose,
    "VOLUME": _Writer.volume,
}
