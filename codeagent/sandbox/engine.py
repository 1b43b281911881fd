"""The one importer of docker: what happens to engines, images and containers outside a command.

Everything here blocks and belongs in a thread.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException

from codeagent.core.errors import SandboxError, SandboxUnavailable
from codeagent.sandbox.engine_socket import unanswered
from codeagent.sandbox.thaw import is_stray, owner

TIMEOUT = 30
"""Seconds for one request that is neither a pull nor an import."""
FAILURES = (DockerException, requests.RequestException, OSError)
LABEL = "codeagent=1"
_FIXED = ((1, 2, 8), (1, 3, 3))
"""The first versions of 1.2 and 1.3 without CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881."""


@dataclass(frozen=True)
class EngineVersions:
    engine: str
    api: str
    runc: str | None


@dataclass(frozen=True)
class ImageFacts:
    image_id: str
    environment: tuple[str, ...]


@dataclass(frozen=True)
class ContainerFacts:
    container_id: str
    labels: Mapping[str, str]


class EngineRefused(SandboxError):
    """The engine answered with an error; the text is its own, on one line."""

    def __init__(self, error: APIError) -> None:
        super().__init__(str(error.explanation or error).replace("\n", " ").strip())
        self.status = int(error.status_code or 0)


class Engine:
    """A local engine, through docker-py.

    Every method raises SandboxUnavailable if the engine does not answer, EngineRefused if it
    answers with an error that the method does not expect.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        try:
            self._api = docker.APIClient(base_url=f"unix://{socket_path}", version="auto", timeout=TIMEOUT)
        except FAILURES as error:
            raise unanswered(socket_path, error) from error

    def close(self) -> None:
        self._api.close()

    def versions(self) -> EngineVersions:
        facts = self._ask(self._api.version)
        parts = {part["Name"].lower(): part["Version"] for part in facts.get("Components") or []}
        return EngineVersions(facts.get("Version", "?"), facts.get("ApiVersion", "?"), parts.get("runc"))

    def image(self, reference: str) -> ImageFacts | None:
        inspect = self._api.inspect_image
        try:
            facts = self._ask(lambda: inspect(reference))  # type: ignore[no-untyped-call]  # as published
        except EngineRefused as refusal:
            if refusal.status == 404:
                return None
            raise
        return ImageFacts(facts["Id"], tuple((facts.get("Config") or {}).get("Env") or ()))

    def pull(self, reference: str, on_progress: Callable[[str], None]) -> str | None:
        """Pull an image; return None if it has come, otherwise why not."""
        repository, _, tag = reference.partition("@")
        layers: dict[str, tuple[int, int]] = {}
        try:
            for entry in self._api.pull(repository, tag=tag, stream=True, decode=True):
                if "error" in entry:
                    return str(entry["error"])
                detail = entry.get("progressDetail") or {}
                if entry.get("status") == "Downloading" and detail.get("total"):
                    layers[entry["id"]] = (detail["current"], detail["total"])
                    done, total = (sum(sizes) for sizes in zip(*layers.values(), strict=True))
                    on_progress(f"pulling {repository}: {done / 1e6:.0f} of {total / 1e6:.0f} MB")
        except FAILURES as error:
            return str(getattr(error, "explanation", None) or error)
        return None

    def import_image(self, tar: bytes | str, tag: str, changes: list[str]) -> str:
        """Make an image of a root file system, given as a tar's bytes or path; return its id."""
        repository, _, version = tag.partition(":")
        names = {"repository": repository, "tag": version}
        if isinstance(tar, bytes):
            self._ask(lambda: self._api.import_image_from_data(tar, changes=changes, **names))
        else:
            self._ask(lambda: self._api.import_image_from_file(tar, changes=changes, **names))
        made = self.image(tag)
        if made is None:
            raise SandboxUnavailable(f"the engine did not keep the image {tag}", "see its log, then try again")
        return made.image_id

    def images(self, repository: str) -> tuple[str, ...]:
        """Return the tags of the repository's images."""
        found = self._ask(lambda: self._api.images(name=repository))
        return tuple(tag for image in found for tag in image.get("RepoTags") or [])

    def remove_image(self, reference: str) -> None:
        try:
            self._ask(lambda: self._api.remove_image(reference, force=True))
        except EngineRefused as refusal:
            if refusal.status != 404:
                raise

    def run(self, arguments: dict[str, Any]) -> tuple[str, Any]:
        """Create and start a container; return its id and the connection to its standard input.

        The container ends when that connection closes, at the latest with this process.
        """
        create = self._api.create_container_from_config
        created = self._ask(lambda: create(arguments))  # type: ignore[no-untyped-call]  # as published
        container_id = str(created["Id"])
        try:
            stdin = self._ask(lambda: self._api.attach_socket(container_id, params={"stdin": 1, "stream": 1}))
            self._ask(lambda: self._api.start(container_id))
        except BaseException:
            self.remove(container_id)
            raise
        return container_id, stdin

    def remove(self, container_id: str) -> None:
        """Kill and remove a container; one that is gone is fine."""
        try:
            self._ask(lambda: self._api.remove_container(container_id, force=True, v=True))
        except EngineRefused as refusal:
            if refusal.status not in (404, 409):
                raise

    def containers(self, label: str) -> Iterator[ContainerFacts]:
        found = self._ask(lambda: self._api.containers(all=True, filters={"label": label}))
        for facts in found:
            yield ContainerFacts(facts["Id"], facts.get("Labels") or {})

    def _ask(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except APIError as error:
            raise EngineRefused(error) from error
        except FAILURES as error:
            raise unanswered(self._socket_path, error) from error


def labels(session: str, instance: str, root: str) -> dict[str, str]:
    """Return the labels of every container, so that nobody adopts or removes another program's."""
    return {
        "codeagent": "1",
        "codeagent.session": session,
        "codeagent.instance": instance,
        "codeagent.pid": str(os.getpid()),
        "codeagent.owner": owner(os.getpid()) or "",
        "codeagent.workspace": root,
    }


def reap(engine: Engine) -> int:
    """Remove our containers whose process is dead; return how many."""
    strays = [facts for facts in engine.containers(LABEL) if is_stray(facts.labels.get("codeagent.owner", ""))]
    for facts in strays:
        engine.remove(facts.container_id)
    return len(strays)


def runtime_warning(runc: str | None) -> str | None:
    """Return a warning if runc is older than the fixes (SECURITY.md T47); a distribution may have patched it."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", runc or "")
    if numbers is None:
        return "the version of runc is unknown: make sure that it has the fixes for CVE-2025-31133"
    version = tuple(map(int, numbers.groups()))
    newest_line = version[:2] >= _FIXED[-1][:2]
    fixed = next((fix for fix in _FIXED if fix[:2] == version[:2]), _FIXED[-1] if newest_line else _FIXED[0])
    if version >= fixed:
        return None
    wanted = ".".join(map(str, fixed))
    return f"runc {runc} is older than {wanted}: escapes are known (CVE-2025-31133), unless your distribution fixed it"
