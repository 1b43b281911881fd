"""What may be a workspace, and what is looked at in it."""

import os
from pathlib import Path

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.masks import secret_files
from codeagent.sandbox.pinned import PinnedRoot, refuse_unsuitable

HOME = Path("/home/somebody")


@pytest.mark.parametrize(
    "root", ["/", "/usr", "/etc", "/var", "/home", "/tmp", "/proc/1", "/sys/fs", "/dev/shm", "/home/somebody"]
)
def test_a_directory_that_is_no_workspace_is_refused(root: str) -> None:
    with pytest.raises(SandboxUnavailable):
        refuse_unsuitable(Path(root), HOME, ())


def test_a_directory_that_holds_what_must_stay_out_is_refused(tmp_path: Path) -> None:
    for private in (tmp_path / "state", tmp_path, tmp_path / "run" / "docker.sock"):
        with pytest.raises(SandboxUnavailable, match="no command may reach"):
            refuse_unsuitable(tmp_path, HOME, (private,))


def test_a_project_below_home_is_fine() -> None:
    refuse_unsuitable(HOME / "project", HOME, (HOME / ".local/state", Path("/var/run/docker.sock")))


def test_a_link_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real" / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(SandboxUnavailable, match="cannot be opened"):
        PinnedRoot(tmp_path / "link" / "project")


def test_a_replaced_directory_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    root = PinnedRoot(tmp_path / "project")
    assert root.unmoved()
    (tmp_path / "project").rename(tmp_path / "old")
    assert not root.unmoved()
    (tmp_path / "project").mkdir()
    assert not root.unmoved()


def test_links_are_seen_as_links_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".codeagent").symlink_to("/etc")
    (tmp_path / "sub").symlink_to("/etc")
    root = PinnedRoot(tmp_path)
    assert [(found.name, found.kind) for found in root.protected()] == [(".codeagent", "link")]
    assert root.find("sub/passwd") is None


def test_every_spelling_of_a_protected_name_is_found(tmp_path: Path) -> None:
    for name in (".git", ".GIT", ".git\u200c", ".codeagent.", "normal"):
        (tmp_path / name).mkdir()
    assert len(PinnedRoot(tmp_path).protected()) == 4


def masked(root: Path) -> list[str]:
    return [found.name for found in secret_files(PinnedRoot(root))[0]]


def test_files_that_look_like_secrets_are_masked_and_others_are_not(tmp_path: Path) -> None:
    for name, text in {
        ".env": "A=1", "deep/er/.env.local": "A=1", ".env.example": "A=", "id_rsa": "x", "id_mapping.py": "x",
        "server.pem": "-----BEGIN PRIVATE KEY-----", "ca.pem": "-----BEGIN CERTIFICATE-----", "lock.key": "no",
        ".npmrc": "//r/:_authToken=x", "web/.npmrc": "save-exact=true", "tests/key.pem": "PRIVATE KEY",
        "node_modules/p/.env": "A=1", "environment.py": "x",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sorted(masked(tmp_path)) == [".env", ".npmrc", "deep/er/.env.local", "id_rsa", "server.pem"]


def test_neither_links_nor_pipes_are_masked(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "x.pem")
    assert masked(tmp_path) == []
