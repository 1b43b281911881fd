"""Reaching and starting a detached session."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from codeagent.core.errors import ConfigError
from codeagent.core.watchdog import MARK
from codeagent.disk.sockets import address_of, listen_at
from codeagent.extensions.board import attaching
from codeagent.extensions.board.attaching import attach, connected, last_held
from codeagent.extensions.board.holder import DRAWS, ENDED, LEFT
from codeagent.extensions.board.page import start_held
from codeagent.tui.terminal import RESET


def ended() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        return process.pid


def test_the_socket_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    path = tmp_path / str(ended())
    listen_at(path).close()
    with pytest.raises(ConfigError, match="no longer detached"):
        connected(path)
    assert not path.exists()


def test_without_an_id_the_sessions_of_killed_processes_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, made, live = (tmp_path / name for name in (str(ended()), "1", str(os.getppid())))
    monkeypatch.setattr(attaching, "held_socket", lambda pid: tmp_path / str(pid))
    with listen_at(live) as listener, socket.socket(socket.AF_UNIX) as unready:
        listen_at(dead).close()
        unready.bind(str(made))  # it does not listen yet
        for age, path in enumerate((made, dead, live)):
            os.utime(path, (1e9 - age, 1e9 - age))
        with last_held() as connection:
            taken, _ = listener.accept()
            with taken:
                taken.send(b"x")
                assert connection.recv(1) == b"x"
    assert sorted(tmp_path.iterdir()) == sorted((made, live))
    live.unlink()
    with pytest.raises(ConfigError, match="no session is detached"):
        last_held()


def test_the_socket_of_another_user_is_neither_used_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1"
    with listen_at(path) as listener:
        listener.setblocking(False)
        monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
        with pytest.raises(ConfigError, match="belongs to another user"):
            connected(path)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert path.exists()


def test_the_socket_of_a_process_that_is_too_busy_to_answer_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "1"
    with listen_at(path) as listener, address_of(path) as address:
        listener.listen(0)
        waiting = socket.socket(socket.AF_UNIX)
        with waiting:
            waiting.connect(address)
            with pytest.raises(ConfigError, match="does not answer"):
                connected(path)
    assert path.exists()


@pytest.mark.parametrize(("said", "restored"), [(ENDED, False), (LEFT, True)])
def test_the_terminal_is_restored_once_and_not_after_the_last_lines_of_a_screen_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, restored: bool
) -> None:
    path, (master, terminal) = tmp_path / "1", os.openpty()
    for_reading = os.open(os.ttyname(terminal), os.O_RDONLY | os.O_NOCTTY)

    def answer() -> None:
        client, _ = listener.accept()
        with client:
            for shown in socket.recv_fds(client, 1, 1)[1]:
                os.write(shown, b"the last lines")
                os.close(shown)
            client.send(said)

    with listen_at(path) as listener, os.fdopen(for_reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        holder = Thread(target=answer)
        holder.start()
        attach(connected(path))
        holder.join()
        os.write(terminal, b"$ ")
        drawn = b""
        while not drawn.endswith(b"$ "):  # it arrives in pieces
            drawn += os.read(master, 4096)
    os.close(terminal)
    os.close(master)
    assert drawn == DRAWS + b"the last lines" + (RESET if restored else b"") + b"$ "


@pytest.mark.parametrize("mark", ["", "of-another"])
def test_a_session_has_no_mark_but_that_of_the_codeagent_it_was_started_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    """What has a mark of this process would end with it."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "<${MARK}>" >&2\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.delenv(MARK, raising=False)
    if mark:
        monkeypatch.setenv(MARK, mark)
    assert start_held(()) == (True, f"<{mark}>")
