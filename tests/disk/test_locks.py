"""A lock is one holder's at a time and goes with the file that is closed."""

import os
from pathlib import Path

import pytest

from codeagent.disk import locks
from codeagent.disk.locks import locked, open_lock_file, try_lock


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = open_lock_file(tmp_path / "lock"), open_lock_file(tmp_path / "lock")
    assert try_lock(first)
    assert not try_lock(second)
    assert not try_lock(second, shared=True)
    os.close(first)
    assert try_lock(second)
    os.close(second)


def test_a_lock_that_stays_held_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_PATIENCE", 0.0)
    lock = tmp_path / "new" / "lock"
    with locked(lock), pytest.raises(TimeoutError, match="another process holds it"), locked(lock):
        pass
    with locked(lock):
        pass


def test_no_link_is_locked(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("other")
    with pytest.raises(OSError, match="symbolic links"):
        open_lock_file(tmp_path / "lock")
    assert not (tmp_path / "other").exists()
