"""Whether a local engine can be reached, and what to do where it cannot."""

import errno
import os
import socket
from pathlib import Path

from codeagent.core.errors import SandboxUnavailable

USUAL_SOCKET = "/var/run/docker.sock"
_ANSWER_SECONDS = 5
_PING = b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n"
_OFF = "or run commands unconfined with --sandbox off"


def engine_socket(docker_host: str | None) -> str:
    """The path of the engine's unix socket. Raises SandboxUnavailable for an engine elsewhere."""
    if docker_host is None:
        rootless = f"{os.environ.get('XDG_RUNTIME_DIR', '')}/docker.sock"
        return USUAL_SOCKET if Path(USUAL_SOCKET).exists() or not Path(rootless).exists() else rootless
    if docker_host.startswith("unix://"):
        return docker_host.removeprefix("unix://")
    raise SandboxUnavailable(
        f"DOCKER_HOST is {docker_host}: an engine on another machine does not see this workspace",
        f"unset DOCKER_HOST to use the local engine, {_OFF}",
    )


def probe_socket(path: str) -> None:
    """Raises SandboxUnavailable where nothing listens or nothing answers soon, without loading anything heavy."""
    probe = socket.socket(socket.AF_UNIX)
    probe.settimeout(_ANSWER_SECONDS)
    try:
        probe.connect(path)
        probe.sendall(_PING)
        if not probe.recv(1):
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection without an answer")
    except OSError as error:
        raise unanswered(path, error) from error
    finally:
        probe.close()


def unanswered(path: str, error: BaseException) -> SandboxUnavailable:
    """Which of the usual reasons it is, each with its remedy."""
    number = _errno(error)
    if number in (errno.ENOENT, errno.ENOTSOCK, errno.ENOTDIR):
        remedy = f"install and start one (Debian, Ubuntu: sudo apt-get install docker.io), {_OFF}"
        return SandboxUnavailable(f"no Docker engine: there is no socket at {path}", remedy)
    if number == errno.ECONNREFUSED:
        remedy = f"start it (sudo systemctl start docker), {_OFF}"
        return SandboxUnavailable(f"the Docker engine is not running: nothing listens at {path}", remedy)
    if number in (errno.EACCES, errno.EPERM):
        remedy = "join its group (sudo usermod -aG docker $USER, then log in again) or use rootless Docker"
        return SandboxUnavailable(f"you may not use the Docker engine: no permission for {path}", remedy)
    if isinstance(error, TimeoutError) or "timed out" in str(error).lower():
        remedy = f"restart it (sudo systemctl restart docker), {_OFF}"
        return SandboxUnavailable(f"the Docker engine at {path} does not answer", remedy)
    return SandboxUnavailable(f"the Docker engine at {path} failed: {error}", "see its log (journalctl -u docker)")


def _errno(error: BaseException) -> int | None:
    """The first errno along the chain of causes; libraries wrap the one that matters."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, OSError) and isinstance(current.errno, int):
            return current.errno
        nested = [argument for argument in current.args if isinstance(argument, BaseException)]
        current = current.__cause__ or current.__context__ or (nested[0] if nested else None)
    return None
