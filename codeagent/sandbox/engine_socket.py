"""Finds the socket of the engine, and says what to do if nothing answers there."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable

USUAL_SOCKET = "/var/run/docker.sock"
PROBE_SECONDS = 5.0
_PING = b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n"
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
        return SandboxUnavailable(f"no Docker engine: there is no socket at {path}", remedy)
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
