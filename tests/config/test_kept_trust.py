"""A project's tool files are trusted by folder and content, never by what the agent could write."""

from pathlib import Path

import pytest

from codeagent.config.kept import TrustFile
from codeagent.core.errors import ConfigError

ONE, OTHER = "1" * 64, "2" * 64


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def book(tmp_path: Path, project: Path) -> TrustFile:
    return TrustFile(tmp_path / "config", project, tmp_path / "home")


def test_nothing_is_trusted_before_the_user_said_so(book: TrustFile) -> None:
    assert not book.trusts(ONE)
    assert not book.file.exists()


def test_what_was_trusted_is_trusted_in_later_sessions(
    book: TrustFile, tmp_path: Path, project: Path
) -> None:
    book.trust(ONE)
    assert TrustFile(tmp_path / "config", project, tmp_path / "home").trusts(ONE)


def test_another_content_is_not_trusted(book: TrustFile) -> None:
    book.trust(ONE)
    assert not book.trusts(OTHER)


def test_trusting_another_content_ends_the_trust_in_the_first(book: TrustFile) -> None:
    book.trust(ONE)
    book.trust(OTHER)
    assert not book.trusts(ONE)
    assert len(book.file.read_text().splitlines()) == 1


def test_trust_can_be_taken_back(book: TrustFile) -> None:
    book.trust(ONE)
    book.forget()
    assert not book.trusts(ONE)


def test_a_folder_inside_a_trusted_one_is_asked_about_again(
    book: TrustFile, tmp_path: Path, project: Path
) -> None:
    book.trust(ONE)
    inner = project / "inner"
    inner.mkdir()
    assert not TrustFile(tmp_path / "config", inner, tmp_path / "home").trusts(ONE)


def test_another_folder_in_its_place_is_another_project(
    book: TrustFile, tmp_path: Path, project: Path
) -> None:
    book.trust(ONE)
    project.rename(tmp_path / "moved")
    project.mkdir()
    assert not TrustFile(tmp_path / "config", project, tmp_path / "home").trusts(ONE)


def test_the_home_directory_and_the_whole_machine_cannot_be_trusted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for folder in (home, Path("/")):
        with pytest.raises(ConfigError, match="cannot be trusted"):
            TrustFile(Path("/") / "nowhere" if folder == home else tmp_path, folder, home).trust(
                ONE
            )


def test_a_file_the_agent_could_write_trusts_nothing(project: Path, tmp_path: Path) -> None:
    book = TrustFile(project / "config", project, tmp_path / "home")
    with pytest.raises(ConfigError, match="the agent could change it"):
        book.trust(ONE)
    assert not book.trusts(ONE)


def test_a_damaged_file_is_an_error_with_its_line(book: TrustFile) -> None:
    book.trust(ONE)
    book.file.write_text(book.file.read_text() + "{}\n")
    with pytest.raises(ConfigError, match=r"trust\.jsonl:2: .*no project is trusted"):
        book.trusts(ONE)


def test_a_file_that_others_can_read_is_not_believed(book: TrustFile) -> None:
    book.trust(ONE)
    book.file.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others"):
        book.trusts(ONE)
