"""The requests that a session makes to the engine, over its socket: docker-py and what it imports
would cost 16 MB.

A request is the method and the path of the engine's own interface.
"""

import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

from codeagent.core.errors import EngineError

_LONGEST_HEAD = 64 * 1024


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
