"""Finds the socket of the engine, makes the requests of a session over it, and says what to do if
nothing answers there.

A request is the method and the path of the engine's own interface: docker-py and what it imports
would cost 16 MB.
"""

import errno
import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from codeagent.core.errors import EngineError, SandboxUnavailable

USUAL_SOCKET = "/var/run/docker.sock"
PROBE_SECONDS = 5.0
_PING = b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n"
_LONGEST_HEAD = 64 * 1024
_OFF = "or run commands unconfined with --sandbox off"


def engine_socket(docker_host: str | None) -> str:
    """Return the path of the engine's unix socket. Raises SandboxUnavailable for an engine on
    another machine."""
    if docker_host is None:
        own = os.environ.get("XDG_RUNTIME_DIR", "")
        places = (USUAL_SOCKET, f"{own}/podman/podman.sock", f"{own}/docker.sock")
        return next((place for place in places if Path(place).exists()), USUAL_SOCKET)
    if docker_host.startswith("unix://"):
        return docker_host.removeprefix("unix://")
    raise SandboxUnavailable(
        f"DOCKER_HOST is {docker_host}: an engine on another machine does not see this workspace",
        f"unset DOCKER_HOST to use the local engine, {_OFF}",
    )


def probe_socket(path: str) -> bool:
    """Ask whether the engine answers, without loading anything heavy, and return whether it is
    Podman.

    Raises SandboxUnavailable if it does not answer.
    """
    probe = socket.socket(socket.AF_UNIX)
    probe.settimeout(PROBE_SECONDS)
    try:
        probe.connect(path)
        probe.sendall(_PING)
        answer = probe.recv(4096)
        if not answer:
            raise ConnectionResetError(
                errno.ECONNRESET, "it closed the connection without an answer"
            )
        return b"\nlibpod-" in answer.lower()
    except OSError as error:
        raise unanswered(path, error) from error
    finally:
        probe.close()


class EngineApi:
    """Makes requests, in any number of threads, each over a connection of its own.

    Raises EngineError for what the engine refuses, OSError and http.client.HTTPException if it does
    not answer.
    """

    def __init__(self, socket_path: str, seconds: float) -> None:
        """`seconds`: how long the engine may be silent."""
        self._path = socket_path
        self._seconds = seconds

    def attached(self, container: str) -> socket.socket:
        """Return the connection to a container's standard input; the container sees it close."""
        request = (
            f"POST /containers/{container}/attach?stdin=1&stream=1 HTTP/1.1\r\nHost: engine\r\n"
        )
        made = self._connected(self._seconds)
        try:
            made.sendall(
                f"{request}Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode()
            )
            head = b""
            while b"\r\n\r\n" not in head:
                piece = made.recv(1)  # what follows is the container's
                if not piece or len(head) > _LONGEST_HEAD:
                    raise ConnectionResetError("the engine closed the connection without an answer")
                head += piece
            status = int(head.split(None, 2)[1])
            if status not in (101, 200):
                raise EngineError(reason(made.recv(_LONGEST_HEAD)), status)
        except BaseException:
            made.close()
            raise
        made.settimeout(None)
        return made

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Return the decoded answer; None if it is empty. `seconds`: another limit of silence."""
        whole = quote(path, safe="/:@") + (f"?{urlencode(query)}" if query else "")
        sent = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("engine")
        connection.sock = self._connected(self._seconds if seconds is None else seconds)
        with closing(connection):
            connection.request(method, whole, sent, headers)
            response = connection.getresponse()
            answer = response.read()
        if response.status >= 400:
            raise EngineError(reason(answer), response.status)
        return json.loads(answer) if answer.strip() else None

    def _connected(self, seconds: float) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(seconds)
            made.connect(self._path)
        except BaseException:
            made.close()
            raise
        return made


def reason(answer: bytes) -> str:
    """Return the engine's own words."""
    try:
        said = str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        said = (
            answer.decode("utf-8", "replace")[:200].strip() or "the engine refused without a reason"
        )
    return said.replace("\n", " ").strip()


def is_rootless(path: str) -> bool:
    """Tell whether the engine behind this socket runs as an ordinary user, who owns it."""
    return Path(path).stat().st_uid != 0


def unanswered(path: str, error: BaseException) -> SandboxUnavailable:
    """Return the error for the most likely reason, with its remedy."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, SandboxUnavailable):
            return cause
    number = next(
        (
            each.errno
            for each in causes
            if isinstance(each, OSError) and isinstance(each.errno, int)
        ),
        None,
    )
    if number in (errno.ENOENT, errno.ENOTSOCK, errno.ENOTDIR):
        remedy = f"install and start one (Debian, Ubuntu: sudo apt-get install docker.io), {_OFF}"
        return SandboxUnavailable(f"no Docker engine: no socket at {path}", remedy)
    if number == errno.ECONNREFUSED:
        remedy = f"start it (sudo systemctl start docker), {_OFF}"
        return SandboxUnavailable(
            f"the Docker engine is not running: nothing listens at {path}", remedy
        )
    if number in (errno.EACCES, errno.EPERM):
        remedy = "join its group (sudo usermod -aG docker $USER, then log in again) or use Podman without root"
        return SandboxUnavailable(
            f"you may not use the Docker engine: no permission for {path}", remedy
        )
    if any(isinstance(each, TimeoutError) or "timed out" in str(each).lower() for each in causes):
        remedy = f"restart it (sudo systemctl restart docker), {_OFF}"
        return SandboxUnavailable(f"the Docker engine at {path} does not answer", remedy)
    return SandboxUnavailable(
        f"the Docker engine at {path} failed: {error}", "see its log (journalctl -u docker)"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was raised from; libraries wrap the one that matters."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        nested = [argument for argument in current.args if isinstance(argument, BaseException)]
        current = current.__cause__ or current.__context__ or (nested[0] if nested else None)
