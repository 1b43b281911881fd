"""The Docker engine: makes every request to it.

What a session asks is `codeagent.sandbox.engine_socket`; pulls and builds go through docker-py. See
ADR 29.
"""

import asyncio
import http.client
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxError, SandboxUnavailable
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.programs import needed_version
from codeagent.sandbox.engine_socket import EngineApi, engine_socket, probe_socket, unanswered
from codeagent.sandbox.tasks import in_thread
from codeagent.sandbox.thaw import is_stray, owner

if TYPE_CHECKING:
    from docker import APIClient

LABEL = "codeagent=1"
IMAGES = "codeagent-sandbox"
"""The repository, in the engine's sense, of every image that is made here."""
ANSWER_SECONDS = 2.0
_SOCKET_SECONDS = 30
"""Seconds of silence after which a request that is not a pull is given up."""
_LAST_LINES = 3
"""Lines of a failed build that are part of its error."""
_OF_THE_ENGINE = ("--->", "Removing intermediate container")
"""Lines of a build that tell only of the engine's own bookkeeping."""
_NO_NETWORK = {"Docker": "none", "Podman": "NetworkDisabled"}
"""What turns off the network of a build; Podman takes any other word for the network of the
host."""
_STEP = lazy_regex(r"(?P<begun>step (?P<number>\d{1,9})/\d+ ?: ).*", re.IGNORECASE | re.DOTALL)
_FIXED = ((1, 2, 8), (1, 3, 3))
"""The first versions of 1.2 and 1.3 without CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881."""


@dataclass(frozen=True)
class EngineVersions:
    name: str
    """`Docker` or `Podman`."""
    engine: str
    api: str
    runc: str | None


@dataclass(frozen=True)
class ImageDetails:
    """An image on this machine."""

    id: str
    """SHA-256 of its configuration, with `sha256:` in front."""
    variables: tuple[str, ...]
    """`NAME=value`."""
    on_build: tuple[str, ...]
    """Instructions that would run in a build on top of it."""
    labels: Mapping[str, str]
    shell: tuple[str, ...] = ()
    """What runs a command that is a text in a build on top of it; empty: the usual one."""
    platform: str = ""
    """`linux/amd64`."""


@dataclass(frozen=True)
class BuildOptions:
    tag: str
    target: str = ""
    """The stage to build; empty: the last one."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    memory_bytes: int = 0
    """0: no limit."""
    steps: tuple[str, ...] = ()
    """What its steps are called where they are reported; empty: as the engine calls them."""


class Engine:
    """A local engine. Methods that are not asynchronous block, and belong in a thread.

    Those raise SandboxUnavailable if the engine does not answer, and EngineError if it answers with
    an error that the method does not expect.
    """

    def __init__(
        self, socket_path: str, seconds: float = 10.0, workspace: Path | None = None
    ) -> None:
        """`seconds`: until a request made with `ask` counts as unanswered.

        No credential helper is taken from `workspace`; None: the current folder.
        """
        self._workspace = workspace
        self.socket_path = socket_path
        self.seconds = seconds
        self._api = EngineApi(socket_path, _SOCKET_SECONDS)
        self._library: APIClient | None = None

    def close(self) -> None:
        if self._library is not None:
            self._library.close()

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Do as `call`, in a thread, within `seconds`. Raises EngineError."""
        limit = self.seconds if seconds is None else seconds
        try:
            async with asyncio.timeout(limit):
                return await in_thread(
                    partial(self.call, method, path, query, body, seconds=seconds)
                )
        except TimeoutError as error:
            raise EngineError(f"the engine did not answer within {limit:g} s") from error
        except SandboxUnavailable as error:
            raise EngineError(str(error)) from error

    async def answers(self) -> bool:
        """Tell, within ANSWER_SECONDS, whether the engine answers at all."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await in_thread(partial(probe_socket, self.socket_path))
        except (TimeoutError, SandboxUnavailable):
            return False
        return True

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
        fine: tuple[int, ...] = (),
    ) -> Any:
        """Make a request and return the decoded answer; None if it is empty, or a refusal with one of
        the statuses `fine`. `seconds`: how long the engine may be silent."""
        try:
            with self._answering():
                return self._api.ask(method, path, query, body, seconds)
        except EngineError as error:
            if error.status in fine:
                return None
            raise

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (http.client.HTTPException, ValueError, OSError) as error:
            raise unanswered(self.socket_path, error) from error

    def call_library(self, request: Callable[[Any], Any]) -> Any:
        """Make a request of docker-py's APIClient, for what is more than one answer: pulls, builds
        and whole files.

        The first one imports and connects it.
        """
        import docker
        import requests

        try:
            if self._library is None:
                url = f"unix://{self.socket_path}"
                self._library = docker.APIClient(url, "auto", timeout=_SOCKET_SECONDS)
                from codeagent.sandbox.credentials import CredentialHelpers  # only with docker-py

                library = cast(Any, docker)
                api = cast(Any, self._library)
                helpers = CredentialHelpers(
                    self._workspace or Path.cwd(), library.credentials.errors
                )
                api._auth_configs._stores = helpers  # docker-py offers no other way to place them
            return request(self._library)
        except docker.errors.APIError as error:
            reason = str(error.explanation or error).replace("\n", " ").strip()
            raise EngineError(reason, int(error.status_code or 0)) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise unanswered(self.socket_path, error) from error

    def versions(self) -> EngineVersions:
        facts = self.call("GET", "/version")
        parts = {part["Name"].lower(): part["Version"] for part in facts.get("Components") or []}
        name = "Podman" if "podman engine" in parts else "Docker"
        of_podman = (
            parts.get("oci runtime (runc)", "").partition("\n")[0].removeprefix("runc version ")
        )
        runc = parts.get("runc") or of_podman or None
        return EngineVersions(name, facts.get("Version", "?"), facts.get("ApiVersion", "?"), runc)

    def image(self, reference: str) -> tuple[str, ...] | None:
        """Return the variables (`NAME=value`) that an image sets; None if it is not on this
        machine."""
        details = self.image_details(reference)
        return None if details is None else details.variables

    def image_details(self, reference: str) -> ImageDetails | None:
        """Return what is known of an image; None if it is not on this machine."""
        details = self.call("GET", f"/images/{reference}/json", fine=(404,))
        if details is None:
            return None
        config = details.get("Config") or {}
        variables, on_build, shell = (
            tuple(config.get(key) or ()) for key in ("Env", "OnBuild", "Shell")
        )
        platform = f"{details.get('Os')}/{details.get('Architecture')}"
        return ImageDetails(
            details["Id"],
            variables,
            on_build,
            config.get("Labels") or {},
            shell=shell,
            platform=platform,
        )

    def pull(self, reference: str, on_progress: Callable[[str], None]) -> str | None:
        """Pull an image; return None if that succeeded, otherwise why not."""
        from docker.utils import parse_repository_tag

        repository, tag = parse_repository_tag(reference)
        layers: dict[str, tuple[int, int]] = {}

        def watch(api: Any) -> str | None:
            for entry in api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                if "error" in entry:
                    return str(entry["error"])
                detail = entry.get("progressDetail") or {}
                if entry.get("status") == "Downloading" and detail.get("total"):
                    layers[entry["id"]] = (detail["current"], detail["total"])
                    done, total = (sum(sizes) for sizes in zip(*layers.values(), strict=True))
                    on_progress(f"pulling {repository}: {done / 1e6:.0f} of {total / 1e6:.0f} MB")
            return None

        try:
            problem: str | None = self.call_library(watch)
        except SandboxError as error:
            return str(error)
        return problem

    def import_image(self, tar: bytes | str, tag: str, changes: list[str]) -> None:
        """Make an image of a root file system, given as a tar's bytes or path."""
        repository, _, version = tag.partition(":")
        names = {"repository": repository, "tag": version, "changes": changes}
        if isinstance(tar, bytes):  # docker-py's `import_image` would not wait long for these
            answer = self.call_library(lambda api: api.import_image_from_data(tar, **names))
        else:
            answer = self.call_library(lambda api: api.import_image(tar, **names))
        if self.image(tag) is None and (made := re.search(r"sha256:[0-9a-f]{64}", str(answer))):
            self.tag(made[0], tag)  # Podman gives it the repository's name only
        if self.image(tag) is None:
            raise SandboxUnavailable(
                f"the engine did not keep the image {tag}", "see its log, then try again"
            )

    def build(
        self, tar: BinaryIO, dockerfile: str, options: BuildOptions, on_line: Callable[[str], None]
    ) -> None:
        """Build an image from a context that contains `dockerfile`, and report each line of it.

        Its commands run as root in containers of the engine's usual kind, without a network unless
        `options` say so. Raises EngineError with the last lines.
        """
        last: deque[str] = deque(maxlen=_LAST_LINES)
        network = None if options.network else _NO_NETWORK[self.versions().name]

        def watch(api: Any) -> str | None:
            for entry in api.build(
                fileobj=tar,
                custom_context=True,
                dockerfile=dockerfile,
                tag=options.tag,
                target=options.target or None,
                buildargs=dict(options.arguments),
                labels=dict(options.labels),
                rm=True,
                forcerm=True,
                pull=False,
                network_mode=network,
                timeout=None,
                use_config_proxy=False,
                decode=True,
                container_limits={"memory": options.memory_bytes, "memswap": options.memory_bytes},
            ):
                if "error" in entry:
                    return str(entry["error"])
                for raw in map(str.strip, str(entry.get("stream") or "").splitlines()):
                    line = _named(options.steps, raw)
                    if line and not line.startswith(_OF_THE_ENGINE):
                        last.append(line)
                        on_line(line)
            return None

        if (problem := self.call_library(watch)) is not None:
            raise EngineError("; ".join([*last, problem]))

    def tag(self, reference: str, tag: str) -> None:
        """Give an image a further name, `REPOSITORY:VERSION`."""
        repository, _, version = tag.partition(":")
        self.call(
            "POST", f"/images/{reference}/tag", {"repo": repository, "tag": version, "force": 1}
        )

    def images(self, repository: str) -> tuple[str, ...]:
        """Return the tags of the repository's images."""
        found = self.call("GET", "/images/json", _filters(reference=repository))
        return tuple(tag for image in found for tag in image.get("RepoTags") or [])

    def remove_image(self, reference: str) -> None:
        self.call("DELETE", f"/images/{reference}", {"force": 1}, fine=(404,))

    def run(
        self, arguments: dict[str, Any], unwanted: Callable[[], None] = lambda: None
    ) -> tuple[str, Any]:
        """Create and start a container; return its id and the connection to its standard input.

        The container ends when that connection closes, at the latest with this process. `unwanted`
        raises once it is of no use any longer; it is removed then, and what that raised is passed
        on.
        """
        created = self.call("POST", "/containers/create", body=arguments)
        container_id = str(created["Id"])
        try:
            with self._answering():
                stdin = self._api.attached(container_id)
            unwanted()
            self.call("POST", f"/containers/{container_id}/start")
            unwanted()
        except BaseException:
            self.remove(container_id)
            raise
        return container_id, stdin

    def remove(self, container_id: str) -> None:
        """Kill and remove a container; it may be gone, or being removed, already."""
        self.call("DELETE", f"/containers/{container_id}", {"force": 1, "v": 1}, fine=(404, 409))

    def unused_volumes(self, label: str) -> dict[str, dict[str, str]]:
        """Return the names of the volumes with this label that no container has, and all labels of
        each."""
        found = self.call("GET", "/volumes", _filters(label=label, dangling="true"))
        return {each["Name"]: each.get("Labels") or {} for each in found.get("Volumes") or []}

    def volumes_of(self, container_id: str) -> dict[str, str]:
        """Return the names of a container's volumes, by where they are mounted."""
        found = self.call("GET", f"/containers/{container_id}/json")
        mounts = found.get("Mounts") or []
        return {each["Destination"]: each["Name"] for each in mounts if each["Type"] == "volume"}

    def remove_volume(self, name: str) -> None:
        """Remove a volume; it may be gone, or in use again, already."""
        self.call("DELETE", f"/volumes/{name}", fine=(404, 409))

    def containers(self, label: str) -> dict[str, dict[str, str]]:
        """Return the ids of the containers with this label, and all labels of each."""
        found = self.call("GET", "/containers/json", {"all": 1} | _filters(label=label))
        return {facts["Id"]: facts.get("Labels") or {} for facts in found}


def _filters(**wanted: str) -> dict[str, str]:
    return {"filters": json.dumps({name: [value] for name, value in wanted.items()})}


def _named(steps: tuple[str, ...], line: str) -> str:
    """Return a line of a build; one that begins a step gets the step's own name."""
    step = _STEP.fullmatch(line)
    if step is None or not 0 < int(step["number"]) <= len(steps):
        return line
    return f"{step['begun']}{steps[int(step['number']) - 1]}"


def left_out_by(ignore_file: str) -> Callable[[str], bool]:
    """Return whether a path, relative to the build context, is left out by the text of a
    `.dockerignore`."""
    from docker.utils.build import PatternMatcher

    raw = ignore_file.removeprefix("\ufeff").split(
        "\n"
    )  # as the engine reads it, and not at other line ends
    lines = [line for each in raw if (line := each.strip()) and not each.startswith("#")]
    matcher: Any = PatternMatcher(lines)
    return lambda path: bool(matcher.matches(path))


@contextmanager
def local_engine(docker_host: str | None) -> Iterator[Engine]:
    """Yield the engine, which answers, and close it. Raises SandboxUnavailable."""
    with closing(Engine(engine_socket(docker_host))) as engine:
        probe_socket(engine.socket_path)
        yield engine


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
    """Remove our containers whose process is dead, and the volumes that such containers left;
    return how many.

    An engine forgets a container's volume if it is asked to remove the container while it is
    removing it already.
    """
    containers = _strays(engine.containers(LABEL))
    for container_id in containers:
        engine.remove(container_id)
    volumes = _strays(engine.unused_volumes(LABEL))
    for name in volumes:
        engine.remove_volume(name)
    return len(containers) + len(volumes)


def _strays(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [name for name, labels in found.items() if is_stray(labels.get("codeagent.owner", ""))]


def runtime_warning(runc: str | None) -> str | None:
    """Return a warning if runc is older than the fixes; a distribution may have
    patched it."""
    try:
        needed = needed_version(runc or "", _FIXED)
    except ValueError:
        return "the version of runc is unknown: make sure that it has the fixes for CVE-2025-31133"
    if needed is None:
        return None
    return f"runc {runc} is older than {needed}: escapes are known (CVE-2025-31133), unless your distribution fixed it"
