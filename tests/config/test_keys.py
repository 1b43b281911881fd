"""Kept keys: the keyring first, else a file nobody else can read; a keyring that fails or hangs
costs nothing."""

import os
import stat
import threading
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.config import keys as module
from codeagent.config.keys import Keyring, KeyStore, server_variable
from codeagent.core.errors import ConfigError
from tests.table import for_each

KEY = "sk-canary-0123456789"


class MemoryKeyring:
    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


class NoKeyring(MemoryKeyring):
    def get_password(self, service: str, name: str) -> str | None:
        raise RuntimeError("no recommended backend was available")

    def set_password(self, service: str, name: str, value: str) -> None:
        raise RuntimeError("no recommended backend was available")


class Forgetful(MemoryKeyring):
    def set_password(self, service: str, name: str, value: str) -> None:
        return None


class Hanging(MemoryKeyring):
    def get_password(self, service: str, name: str) -> str | None:
        threading.Event().wait(30)
        return None

    def set_password(self, service: str, name: str, value: str) -> None:
        threading.Event().wait(30)


def store(folder: Path, ring: Keyring) -> KeyStore:
    return KeyStore(folder / "config", lambda: ring)


def test_a_key_goes_to_the_keyring_and_into_no_file(tmp_path: Path) -> None:
    keys = store(tmp_path, MemoryKeyring())
    assert keys.keep("ANTHROPIC_API_KEY", f" {KEY}\n") == "the system's keyring"
    assert keys.find("ANTHROPIC_API_KEY") == KEY
    assert keys.find("OPENAI_API_KEY") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ring", [MemoryKeyring(), NoKeyring()])
def test_a_key_of_a_server_is_the_same_for_its_paths_and_no_other_servers(
    tmp_path: Path, ring: Keyring
) -> None:
    keys, base = store(tmp_path, ring), "http://127.0.0.1:8080"
    keys.keep_secret(server_variable(base), "x")
    assert [
        keys.find(server_variable(base + path)) for path in ("", "/v1", "/v1/chat/completions?a=b")
    ] == ["x"] * 3
    others = (
        "https://127.0.0.1:8080",
        "http://127.0.0.1:8081",
        "http://127-0.0.1:8080",
        "http://[",
        "",
    )
    assert [keys.find(server_variable(other)) for other in others] == [None] * 5


@for_each(
    ("address", "same"),
    [
        ("https://models.corp/v1", "https://Models.corp:443"),
        ("http://models.corp", "http://models.corp:80/v1"),
    ],
)
def test_a_usual_port_may_be_written_or_not(address: str, same: str) -> None:
    assert server_variable(address) == server_variable(same)
    assert server_variable("https://models.corp") != server_variable("http://models.corp")


def test_the_keyring_is_not_asked_for_the_key_of_a_server_that_has_none(tmp_path: Path) -> None:
    def opened() -> Keyring:
        raise AssertionError("it is slow to open")

    assert (
        KeyStore(tmp_path / "config", opened).find(server_variable("http://127.0.0.1:8080")) is None
    )


@pytest.mark.parametrize("ring", [MemoryKeyring(), NoKeyring()])
def test_what_is_forgotten_is_gone_and_the_rest_stays(tmp_path: Path, ring: Keyring) -> None:
    keys = store(tmp_path, ring)
    keys.keep_secret("MCP_ONE", "x" * 10_000)
    keys.keep("OPENAI_API_KEY", KEY)
    assert keys.find("MCP_ONE") == "x" * 10_000
    keys.forget("MCP_ONE")
    keys.forget("MCP_ONE")
    assert (keys.find("MCP_ONE"), keys.find("OPENAI_API_KEY")) == (None, KEY)


@pytest.mark.parametrize("ring", [NoKeyring(), Forgetful()])
def test_without_a_keyring_that_works_it_is_a_file_only_its_owner_reads(
    tmp_path: Path, ring: Keyring
) -> None:
    keys = store(tmp_path, ring)
    assert "only you can read" in keys.keep("OPENAI_API_KEY", KEY)
    keys.keep("MISTRAL_API_KEY", KEY + "2")
    assert (keys.find("OPENAI_API_KEY"), keys.find("MISTRAL_API_KEY")) == (KEY, KEY + "2")
    assert stat.S_IMODE(keys.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.file.parent.stat().st_mode) == 0o700
    assert {path.name for path in keys.file.parent.iterdir()} == {"keys.toml", "keys.lock"}


def test_processes_that_keep_keys_at_once_lose_none(tmp_path: Path) -> None:
    names = [f"KEY_{at}" for at in range(12)]
    at_once = threading.Barrier(len(names))

    def keep(name: str) -> None:
        at_once.wait()
        store(tmp_path, NoKeyring()).keep(name, KEY)

    threads = [threading.Thread(target=keep, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = store(tmp_path, NoKeyring())
    assert [keys.find(name) for name in names] == [KEY] * len(names)


def test_a_keyring_that_does_not_give_up_a_key_is_reported(tmp_path: Path) -> None:
    class Locked(MemoryKeyring):
        def delete_password(self, service: str, name: str) -> None:
            raise RuntimeError("locked")

    keys = store(tmp_path, Locked())
    keys.keep("OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigError, match="still in the system's keyring"):
        keys.forget("OPENAI_API_KEY")


def test_a_keyring_that_hangs_is_waited_for_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_READ_SECONDS", 0.05)
    monkeypatch.setattr(module, "_WRITE_SECONDS", 0.05)
    keys = store(tmp_path, Hanging())
    before = time.monotonic()
    assert "only you can read" in keys.keep("OPENAI_API_KEY", KEY)
    assert keys.find("OPENAI_API_KEY") == KEY
    assert time.monotonic() - before < 10


def test_the_real_library_without_a_backend_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keyring
    from keyring.backends.fail import Keyring as Failing

    monkeypatch.setattr(keyring.core, "_keyring_backend", Failing())
    assert "only you can read" in KeyStore(tmp_path).keep("OPENAI_API_KEY", KEY)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o644])
def test_a_file_others_can_read_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    keys = store(tmp_path, NoKeyring())
    keys.keep("OPENAI_API_KEY", KEY)
    keys.file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        keys.find("OPENAI_API_KEY")


def test_a_link_a_directory_a_pipe_and_nonsense_are_refused(tmp_path: Path) -> None:
    keys = store(tmp_path, NoKeyring())
    keys.keep("OPENAI_API_KEY", KEY)
    elsewhere = keys.file.rename(tmp_path / "elsewhere.toml")
    keys.file.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="cannot be read"):
        keys.find("OPENAI_API_KEY")
    keys.file.unlink()
    os.mkfifo(keys.file, 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        keys.find("OPENAI_API_KEY")
    keys.file.unlink()
    keys.file.write_text("not toml")
    keys.file.chmod(0o600)
    with pytest.raises(ConfigError, match="not a TOML file"):
        keys.find("OPENAI_API_KEY")


def test_a_file_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = store(tmp_path, NoKeyring())
    keys.keep("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ConfigError, match="another user"):
        keys.find("OPENAI_API_KEY")


@pytest.mark.parametrize(
    "bad", ["", "short", "two words here", "tab\tinside", "ünïcode-key-000", "x" * 5000, "a\nb" * 9]
)
def test_what_is_no_key_is_not_kept_and_not_repeated(tmp_path: Path, bad: str) -> None:
    keys = store(tmp_path, NoKeyring())
    with pytest.raises(ConfigError, match="nothing was kept") as caught:
        keys.keep("OPENAI_API_KEY", bad)
    assert not bad.strip() or bad not in str(caught.value)
    assert not keys.file.exists()


@pytest.mark.parametrize("name", ["", "path", "A B", "A=B", "lower_KEY", "X" * 80])
def test_what_names_no_variable_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="not the name"):
        store(tmp_path, MemoryKeyring()).keep(name, KEY)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=80))
def test_every_key_comes_back_as_it_was_given(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    keys = store(tmp_path_factory.mktemp("keys"), NoKeyring())
    keys.keep("OPENAI_API_KEY", value)
    assert keys.find("OPENAI_API_KEY") == value
    assert tomllib.loads(keys.file.read_text()) == {"OPENAI_API_KEY": value}
