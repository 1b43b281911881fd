"""Sockets in folders whose paths are too long for a socket's address."""

import socket
from pathlib import Path

import pytest

from codeagent.disk import sockets
from codeagent.disk.sockets import address_of, listen_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    return folder / "socket"


def open_descriptors() -> set[str]:
    return {each.name for each in Path("/proc/self/fd").iterdir()}


def test_a_socket_is_bound_and_reached_however_long_its_path_is(path: Path) -> None:
    before = open_descriptors()
    with listen_at(path) as listener, socket.socket(socket.AF_UNIX) as client:
        with address_of(path) as address:
            client.connect(address)
        accepted, _ = listener.accept()
        with accepted:
            client.sendall(b"it")
            assert accepted.recv(2) == b"it"
        assert path.stat().st_mode & 0o777 == 0o600
    assert open_descriptors() == before


def test_what_is_at_the_path_is_not_replaced(path: Path) -> None:
    path.write_text("mine")
    before = open_descriptors()
    with pytest.raises(OSError, match="already in use"):
        listen_at(path)
    assert path.read_text() == "mine"
    assert open_descriptors() == before


def test_a_folder_that_is_a_link_is_not_followed(path: Path) -> None:
    link = path.parent.with_name("link")
    link.symlink_to(path.parent)
    with pytest.raises(NotADirectoryError):
        listen_at(link / "socket")


def test_without_proc_the_address_is_the_path(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.setattr(sockets.Path, "exists", lambda path: False)
    with pytest.raises(OSError, match="path too long"):
        listen_at(path)
    monkeypatch.chdir(tmp_path)
    with listen_at(Path("short")), address_of(Path("short")) as address:
        assert address == "short"
