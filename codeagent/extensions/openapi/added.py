"""OpenAPI documents that were added: each as it was then, with what was said about it, in a folder
of its owner's.

A document is `NAME.document.json`; beside it, `NAME.json` says where it came from, which hosts are
pinned for it, and which operations it has. A project's are used only as they were when they were
trusted.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codeagent.config.extensions import built_in_sets
from codeagent.config.kept import TrustFile
from codeagent.config.settings import ConfiguredHost
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.disk.opens import read_regular
from codeagent.disk.private import UnsafeFile, read_private, replace_private

DOCUMENTS = "openapi"
"""The folder of documents, below the configuration's."""
PROJECT_DOCUMENTS = Path(".codeagent/openapi")

LARGEST_DOCUMENT = 32 << 20
"""Bytes of one document, as it is kept."""
_LARGEST_RECORD = 4 << 20
_MOST = 100
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?")
_RECORD, _DOCUMENT = ".json", ".document.json"
Secret = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


class IndexEntry(BaseModel):
    """One tool of a document, as lists show it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    summary: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""


class DocumentRecord(BaseModel):
    """What was said about a document when it was added."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    origin: str
    """The address or the file that it came from."""
    sha256: str
    """Of the document as it is kept (hex)."""
    about: str = ""
    base: str = ""
    """The address that relative servers belong to."""
    server: str = ""
    """Takes the place of the servers in the document."""
    hosts: Annotated[tuple[ConfiguredHost, ...], Field(min_length=1)]
    """Pinned: no other is called."""
    private: bool = False
    """The hosts may be at addresses that are not public."""
    only: tuple[str, ...] = ()
    secrets: dict[str, Secret] = Field(default_factory=dict)
    """The name of a secret, by the security scheme that it is for."""
    tools: tuple[IndexEntry, ...] = ()


@dataclass(frozen=True)
class AddedDocument:
    """A document that is there."""

    name: str
    record: DocumentRecord
    place: Literal["user", "project"]
    file: Path
    """The document itself."""
    trusted: bool = True
    problem: str = ""
    """Why it cannot be used; empty if nothing is known to be wrong."""

    def read(self) -> bytes:
        """The document, unchanged since it was added. Blocks. Raises ConfigError."""
        if self.problem:
            raise ConfigError(self.problem)
        try:
            data = read_regular(self.file, largest=LARGEST_DOCUMENT)
        except OSError as error:
            raise ConfigError(
                f"{self.file} cannot be read ({error.strerror or error}); add it again"
            ) from error
        if hashlib.sha256(data).hexdigest() != self.record.sha256:
            raise ConfigError(
                f"{self.file} is not the document that was added; remove {self.name} and add it again"
            )
        return data


class DocumentFiles:
    """The documents of the user and of a project; methods block on small files."""

    def __init__(self, own: Path | None, workspace: Path, *, accept: bool = False) -> None:
        """`own`: the configuration's folder; None if there is none that the agent cannot write to,
        so that nothing is kept or trusted. `accept`: the project's are trusted as they are, without
        asking."""
        self._own = own
        self._workspace = workspace
        self._accept = accept

    def read(self) -> tuple[AddedDocument, ...]:
        """All of them, also those with a problem; the user's come first, and the first of a name
        keeps it.

        Raises ConfigError if it cannot be told which are trusted.
        """
        found = {one.name: one for one in self._mine()}
        for one in self._theirs():
            found.setdefault(one.name, one)
        return tuple(found.values())

    def add(self, name: str, record: DocumentRecord, data: bytes, *, project: bool = False) -> Path:
        """Keep a document, and return its folder. Raises ConfigError, and changes nothing then."""
        if _NAME.fullmatch(name) is None:
            raise ConfigError(
                f"{name[:80]!r} cannot be the name of a document: 1 to 24 letters, digits and -, in lower case; "
                "nothing was added"
            )
        if name in built_in_sets():
            raise ConfigError(
                f"there is another toolset named {name}; give this one a --name; nothing was added"
            )
        folder = self._workspace / PROJECT_DOCUMENTS if project else self._folder
        if (folder / f"{name}{_RECORD}").exists():
            raise ConfigError(
                f"{name} is already there; codeagent tools remove {name} removes it first"
            )
        text = json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False)
        try:
            replace_private(folder / f"{name}{_DOCUMENT}", data)
            replace_private(folder / f"{name}{_RECORD}", text.encode())
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot be written to ({error.strerror}); nothing was added"
            ) from error
        return folder

    def remove(self, name: str) -> Path:
        """Remove a document of the user's, else the project's, and return its folder. Raises
        ConfigError."""
        own = () if self._own is None else (self._own / DOCUMENTS,)
        places = (self._workspace / PROJECT_DOCUMENTS, *own)
        folders: dict[str, Path] = {one: folder for folder in places for one in _names(folder)}
        if (folder := folders.get(name)) is None:
            raise ConfigError(
                f"no document is named {name[:80]!r}; there are {', '.join(sorted(folders)) or 'none'}"
            )
        try:
            (folder / f"{name}{_RECORD}").unlink()
            (folder / f"{name}{_DOCUMENT}").unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{name} cannot be removed from {folder} ({error.strerror})"
            ) from error
        return folder

    def untrusted(self) -> tuple[str, ...]:
        """Return what is not trusted as it is now, as `codeagent tools trust` names it. Raises
        ConfigError."""
        return tuple(f"{one.name} (OpenAPI)" for one in self.read() if not one.trusted)

    def trust(self) -> tuple[str, ...]:
        """Trust the project's documents as they are now; return their names. Raises ConfigError."""
        found = list(self._raw_records())
        if found:
            self._record().trust(_digest(found))
        return tuple(name for name, _ in found)

    def distrust(self) -> None:
        """Raises ConfigError."""
        self._accept = False
        self._record().forget()

    @property
    def _folder(self) -> Path:
        if self._own is None:
            raise ConfigError(
                "without a configuration folder outside the workspace, no document can be kept"
            )
        return self._own / DOCUMENTS

    def _mine(self) -> Iterator[AddedDocument]:
        if self._own is None:
            return
        folder = self._folder
        for name in _names(folder):
            file, document = folder / f"{name}{_RECORD}", folder / f"{name}{_DOCUMENT}"
            try:
                if (raw := read_private(file, _LARGEST_RECORD)) is not None:
                    yield AddedDocument(name, _parsed(raw, file), "user", document)
            except UnsafeFile as error:
                why = f"{error}; repair it, or codeagent tools remove {name}"
                yield AddedDocument(name, _UNUSABLE, "user", document, problem=why)
            except ConfigError as error:
                yield AddedDocument(name, _UNUSABLE, "user", document, problem=str(error))

    def _theirs(self) -> Iterator[AddedDocument]:
        found = list(self._raw_records())
        if not found:
            return
        trusted = self._accept or (self._own is not None and self._record().trusts(_digest(found)))
        for name, raw in found:
            file = self._workspace / PROJECT_DOCUMENTS / f"{name}{_DOCUMENT}"
            record, problem = _UNUSABLE, ""
            try:
                record = (
                    _parsed(raw, PROJECT_DOCUMENTS / f"{name}{_RECORD}") if trusted else _UNUSABLE
                )
            except ConfigError as error:
                problem = str(error)
            yield AddedDocument(
                name, record, "project", file=file, trusted=trusted, problem=problem
            )

    def _raw_records(self) -> Iterator[tuple[str, bytes]]:
        """Yield the project's records as they are; nothing of them is used before they are
        trusted."""
        folder = self._workspace / PROJECT_DOCUMENTS
        for name in _names(folder):
            try:
                yield name, read_regular(folder / f"{name}{_RECORD}", largest=_LARGEST_RECORD)
            except OSError:
                yield name, b""  # it is not a record, and is reported as such

    def _record(self) -> TrustFile:
        if self._own is None:
            raise ConfigError("trust cannot be stored here, so no document of the project is used")
        return TrustFile(self._own, self._workspace, Path.home(), "openapi-trust.jsonl")


_UNUSABLE = DocumentRecord(origin="", sha256="", hosts=("unusable.invalid",))
"""In the place of a record that is not trusted, or cannot be read."""


def _names(folder: Path) -> list[str]:
    try:
        files = sorted(file.name for file in folder.iterdir())
    except OSError:
        return []
    names = [
        file.removesuffix(_RECORD)
        for file in files
        if file.endswith(_RECORD) and not file.endswith(_DOCUMENT)
    ]
    return [name for name in names if _NAME.fullmatch(name)][:_MOST]


def _digest(records: Sequence[tuple[str, bytes]]) -> str:
    """SHA-256 (hex) over names and contents; a record holds the digest of its document."""
    total = hashlib.sha256()
    for name, raw in records:
        total.update(b"%d %d " % (len(name), len(raw)) + name.encode() + raw)
    return total.hexdigest()


def _parsed(raw: bytes, where: Path) -> DocumentRecord:
    try:
        return DocumentRecord.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{where}: {place}: {first['msg']}; remove the document and add it again"
        ) from error
