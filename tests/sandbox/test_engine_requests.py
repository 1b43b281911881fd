"""The engine's answers, refusals and silences, as the requests of a session meet them."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codeagent.core.errors import EngineError, SandboxUnavailable
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.engine_socket import EngineApi

Answers = list[list[bytes]]
"""What each connection is sent, a piece for each request; it is closed after the last."""


def answer(body: bytes = b"", status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@contextmanager
def engine(path: Path, answers: Answers) -> Iterator[list[bytes]]:
    """Serve the connections in order; yield the first line and the body of each request."""
    asked: list[bytes] = []
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        for pieces in answers:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as incoming:
                for piece in pieces:
                    head = [incoming.readline()]
                    while (line := incoming.readline()) not in (b"\r\n", b""):
                        head.append(line)
                    sizes = [
                        int(line.split(b":")[1])
                        for line in head
                        if line.lower().startswith(b"content-length")
                    ]
                    asked.append(head[0].strip() + b" " + incoming.read(sum(sizes)))
                    connection.sendall(piece)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield asked
    thread.join()
    listening.close()


def test_each_request_has_a_connection_of_its_own(tmp_path: Path) -> None:
    made, gone, none = answer(b'{"Id": "a"}'), answer(b"", "204 No Content"), answer(b"[]")
    with engine(tmp_path / "s", [[made], [gone], [none]]) as asked:
        api = EngineApi(str(tmp_path / "s"), 5.0)
        assert api.ask("POST", "/containers/c1/exec", body={"Cmd": ["true"]}) == {"Id": "a"}
        assert api.ask("DELETE", "/containers/c1", {"force": 1, "v": 1}) is None
        wanted = {"all": 1, "filters": '{"label": ["a=b"]}'}
        assert api.ask("GET", "/containers/json", wanted) == []
    assert asked[0].startswith(b"POST /containers/c1/exec HTTP/1.1 ")
    assert json.loads(asked[0].split(b" ", 3)[3]) == {"Cmd": ["true"]}
    assert asked[1] == b"DELETE /containers/c1?force=1&v=1 HTTP/1.1 "
    assert (
        asked[2]
        == b"GET /containers/json?all=1&filters=%7B%22label%22%3A+%5B%22a%3Db%22%5D%7D HTTP/1.1 "
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"message": "No such\\ncontainer: c1"}', "No such container: c1"),
        (b"<html>", "<html>"),
        (b"", "the engine refused without a reason"),
    ],
)
def test_a_refusal_has_the_engines_words_and_status(tmp_path: Path, body: bytes, said: str) -> None:
    with (
        engine(tmp_path / "s", [[answer(body, "404 Not Found")]]),
        pytest.raises(EngineError) as caught,
    ):
        EngineApi(str(tmp_path / "s"), 5.0).ask("POST", "/containers/c1/pause")
    assert (str(caught.value), caught.value.status) == (said, 404)


@pytest.mark.parametrize(
    "piece", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"]
)
def test_an_answer_that_breaks_off_or_is_not_one_says_that_the_engine_failed(
    tmp_path: Path, piece: bytes
) -> None:
    with engine(tmp_path / "s", [[piece]]), pytest.raises(SandboxUnavailable, match="failed"):
        Engine(str(tmp_path / "s")).call("GET", "/version")


def test_an_attached_connection_keeps_what_came_with_the_answer(tmp_path: Path) -> None:
    with engine(tmp_path / "s", [[b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nhello"]]) as asked:
        attached = EngineApi(str(tmp_path / "s"), 5.0).attached("c1")
        with attached:
            assert attached.recv(5, socket.MSG_WAITALL) == b"hello"
            assert attached.gettimeout() is None
    assert asked == [b"POST /containers/c1/attach?stdin=1&stream=1 HTTP/1.1 "]


def test_an_attachment_that_is_refused_is_told_in_the_engines_words(tmp_path: Path) -> None:
    refusal = answer(b'{"message": "it is paused"}', "409 Conflict")
    with engine(tmp_path / "s", [[refusal]]), pytest.raises(EngineError, match="it is paused"):
        EngineApi(str(tmp_path / "s"), 5.0).attached("c1")


def test_silence_ends_a_request(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen()
    with listening, pytest.raises((TimeoutError, http.client.HTTPException)):
        EngineApi(str(tmp_path / "s"), 0.05).ask("GET", "/version")
