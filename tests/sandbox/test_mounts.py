"""What may be a workspace, and what is looked at in it."""

import os
from pathlib import Path

import pytest

from codeagent.core.errors import SandboxUnavailable
from codeagent.sandbox.mounts import PinnedRoot, SecretScan, refuse_unsuitable
from tests.table import for_each

HOME = Path("/home/somebody")


@for_each(
    "root",
    [
        "/",
        "/usr",
        "/etc",
        "/var",
        "/home",
        "/tmp",
        "/proc/1",
        "/sys/fs",
        "/dev/shm",
        "/home/somebody",
    ],
)
def test_a_directory_that_is_no_workspace_is_refused(root: str) -> None:
    with pytest.raises(SandboxUnavailable):
        refuse_unsuitable(Path(root), HOME, ())


def test_a_directory_that_holds_what_must_stay_out_is_refused(tmp_path: Path) -> None:
    for private in (tmp_path / "state", tmp_path, tmp_path / "run" / "docker.sock"):
        with pytest.raises(SandboxUnavailable, match="no command may see"):
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
    root.refuse_moved()
    (tmp_path / "project").rename(tmp_path / "old")
    with pytest.raises(SandboxUnavailable, match="was moved or replaced"):
        root.refuse_moved()
    (tmp_path / "project").mkdir()
    with pytest.raises(SandboxUnavailable, match="was moved or replaced"):
        root.refuse_moved()


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
    return [mask.name for mask in SecretScan(PinnedRoot(root)).look().masked]


def test_files_that_look_like_secrets_are_masked_and_others_are_not(tmp_path: Path) -> None:
    for name, text in {
        ".env": "A=1",
        "deep/er/.env.local": "A=1",
        ".env.example": "A=",
        "id_rsa": "x",
        "id_mapping.py": "x",
        "server.pem": "-----BEGIN PRIVATE KEY-----",
        "ca.pem": "-----BEGIN CERTIFICATE-----",
        "lock.key": "no",
        ".npmrc": "//r/:_authToken=x",
        "web/.npmrc": "save-exact=true",
        "tests/key.pem": "PRIVATE KEY",
        "node_modules/p/.env": "A=1",
        "environment.py": "x",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sorted(masked(tmp_path)) == [
        ".env",
        ".npmrc",
        "deep/er/.env.local",
        "id_rsa",
        "server.pem",
    ]


def test_neither_links_nor_pipes_are_masked(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "x.pem")
    assert masked(tmp_path) == []


def test_a_secret_that_appears_later_is_found_by_the_next_look(tmp_path: Path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    scan = SecretScan(PinnedRoot(tmp_path))
    assert scan.look().masked == frozenset()
    for folder in (tmp_path / "deep", tmp_path):
        os.utime(folder, (1, 1))
    scan.look()
    (tmp_path / "deep/er/.env.local").write_text("A=1")
    assert [mask.path for mask in scan.look().masked] == [f"{tmp_path}/deep/er/.env.local"]
    (tmp_path / "new").write_text("A=2")
    before = scan.look()
    (tmp_path / "new").rename(tmp_path / "deep/er/.env.local")
    assert scan.look() != before, "another file in its place has another identity"


def test_what_did_not_change_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    for folder in (tmp_path / "a/b", tmp_path / "a", tmp_path / "c", tmp_path):
        os.utime(folder, (1, 1))
    scan = SecretScan(PinnedRoot(tmp_path))
    scan.look()
    (tmp_path / "c/.env").write_text("A=1")
    listed: list[int] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda fd: listed.append(os.fstat(fd).st_ino) or scandir(fd))
    assert [mask.name for mask in scan.look().masked] == ["c/.env"]
    assert listed == [(tmp_path / "c").stat().st_ino]


def test_a_large_workspace_is_searched_from_the_top_and_it_is_said_that_not_all_was(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / "many").mkdir()
    for number in range(30):
        (tmp_path / f"many/{number}").mkdir()
        (tmp_path / f"many/{number}/.env").write_text("A=1")
    found = SecretScan(PinnedRoot(tmp_path), most_entries=20).look()
    assert f"{tmp_path}/.env" in {mask.path for mask in found.masked}
    assert not found.complete
    assert len(SecretScan(PinnedRoot(tmp_path)).look().masked) == 31


def test_a_folder_whose_name_is_not_utf8_is_refused_for_that() -> None:
    with pytest.raises(
        SandboxUnavailable, match=r"the name /srv/caf\\udce9 is not UTF-8"
    ) as refused:
        refuse_unsuitable(Path("/srv/caf\udce9"), HOME, ())
    assert refused.value.remedy == "rename the folder"
    refuse_unsuitable(Path("/srv/caf\u00e9"), HOME, ())
