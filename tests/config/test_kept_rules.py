"""Rules that were kept: for one folder, for a while, and only what may be kept; damage allows
nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.config.kept import LASTS, KeptRulesFile
from codeagent.core.errors import ConfigError
from codeagent.core.policy import Rule

NOW = 1_790_000_000.0
LOG = Rule("auto", "bash", "git log *", "saved")


def objection(rule: Rule) -> str | None:
    return (
        "it runs whatever it is given"
        if (rule.pattern or "").startswith(("sh ", "sudo "))
        else None
    )


class Folders:
    """A configuration folder and two workspaces, at a moment of the test's choice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "config/codeagent"
        self.file = self.folder / "rules.jsonl"
        self.work, self.other = folder / "work", folder / "other"
        self.work.mkdir()
        self.other.mkdir()
        self.now = NOW
        self.told: list[str] = []

    def book(self, workspace: Path | None = None) -> KeptRulesFile:
        return KeptRulesFile(self.folder, workspace or self.work, objection, lambda: self.now)

    def load(self, workspace: Path | None = None) -> tuple[Rule, ...]:
        return self.book(workspace).load(self.told.append)


@pytest.fixture
def place(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_where_nothing_was_kept_nothing_is_allowed_and_nothing_written(place: Folders) -> None:
    assert place.load() == ()
    assert not place.folder.exists()


def test_a_rule_that_was_kept_holds_in_later_sessions(place: Folders) -> None:
    where = place.book().keep("bash(git log *)")
    assert where == f"{place.file}, for this folder until 2026-12-20"
    assert place.load() == (LOG,)
    assert place.told == []


def test_what_was_denied_for_good_is_denied_in_later_sessions_until_it_is_revoked(
    place: Folders,
) -> None:
    place.book().keep("network(evil.example)", denies=True)
    assert place.load() == (Rule("deny", "network", "evil.example", "saved"),)
    place.book().keep("network(evil.example)")
    assert place.load() == (Rule("auto", "network", "evil.example", "saved"),), (
        "the last word counts"
    )
    place.book().forget("network(evil.example)")
    assert place.load() == ()


def test_a_rule_holds_only_in_the_folder_it_was_kept_for(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    assert place.load(place.other) == ()
    place.book(place.other).keep("bash(make *)")
    assert [str(rule) for rule in place.load(place.other)] == ["bash(make *)"]
    assert place.load() == (LOG,)


def test_another_way_to_the_same_folder_is_the_same_folder(place: Folders, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.work)
    place.book(tmp_path / "link").keep("bash(git log *)")
    assert place.load() == (LOG,)


def test_a_folder_that_took_the_place_of_another_inherits_nothing(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    place.work.rename(place.work.with_name("moved"))
    place.work.mkdir()
    assert place.load() == ()
    assert place.told == [
        f"you will be asked again: bash(git log *), which was kept for another folder at {place.work}"
    ]


def test_after_ninety_days_the_user_is_asked_again_and_told_once(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    place.now += LASTS.total_seconds() - 1
    assert place.load() == (LOG,)
    place.now += 1
    assert place.load() == ()
    assert place.told == [
        "you will be asked again: bash(git log *), which was kept until 2026-12-20"
    ]
    assert (place.load(), len(place.told)) == ((), 1)


def test_the_same_answer_once_more_begins_the_time_again(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    place.now += 50 * 86400
    place.book().keep("bash(git log *)")
    place.now += 50 * 86400
    assert place.load() == (LOG,)
    assert len(place.file.read_text().splitlines()) == 1


def test_a_rule_that_was_forgotten_does_not_hold_and_the_others_do(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    place.book().keep("write(src/**)")
    place.book(place.other).keep("bash(git log *)")
    place.book().forget("bash(git log *)")
    assert [str(rule) for rule in place.load()] == ["write(src/**)"]
    assert place.load(place.other) == (LOG,)


def test_to_forget_what_was_never_kept_changes_nothing(place: Folders) -> None:
    place.book().forget("bash(git log *)")
    assert not place.file.exists()


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("bash", "would allow every call of the tool"),
        ("bash(sh *)", "it runs whatever it is given"),
        ("bash(", "not a rule"),
        ("bash(git log \u202e*)", "cannot be seen"),
        ("bash(git log \ud800*)", "cannot be seen"),
    ],
)
def test_what_is_too_broad_or_no_rule_is_refused_and_nothing_is_written(
    place: Folders, rule: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        place.book().keep(rule)
    assert not place.file.exists()


def test_a_rule_in_the_file_that_could_not_be_kept_does_not_hold(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    text = place.file.read_text()
    place.file.write_text(
        text + text.replace("git log *", "sudo *") + text.replace("bash(git log *)", "bash")
    )
    assert place.load() == (LOG,)
    assert place.told == [
        "you will be asked again: bash(sudo *), which may not be kept: it runs whatever it is given",
        "you will be asked again: bash, which allows every call of the tool",
    ]


def test_the_file_can_be_read_by_its_owner_only(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    assert place.file.stat().st_mode & 0o777 == 0o600
    assert place.folder.stat().st_mode & 0o777 == 0o700
    assert sorted(item.name for item in place.folder.iterdir()) == ["rules.jsonl", "rules.lock"]
    place.file.chmod(0o644)
    with pytest.raises(
        ConfigError, match=r"can be read by others: chmod 600 .*no kept rule is used"
    ):
        place.load()


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda line: line[: len(line) // 2], "Invalid JSON"),
        (lambda line: line.replace('"v":1', '"v":2'), "v Input should be 1"),
        (lambda line: line.replace('"added"', '"since"'), "Field required|Extra inputs"),
        (lambda line: line.replace("bash(git log *)", "bash("), "rule not a rule"),
        (lambda line: line.replace("Z", ""), "timezone"),
        (lambda line: "\x00" * 80, "Invalid JSON"),
        (lambda line: "\x1b[2J", "Invalid JSON"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_allowed_or_overwritten(
    place: Folders, damage: object, what: str
) -> None:
    place.book().keep("bash(git log *)")
    good = place.file.read_text()
    assert callable(damage)
    place.file.write_text(good + damage(good.strip()) + "\n")
    before = place.file.read_bytes()
    for act in (
        lambda: place.load(),
        lambda: place.book().keep("write(a)"),
        lambda: place.book().forget("write(a)"),
    ):
        with pytest.raises(ConfigError, match=what) as caught:
            act()
        assert str(caught.value).startswith(f"{place.file}:2: ")
        assert str(caught.value).isprintable()
    assert place.file.read_bytes() == before


def test_a_link_in_place_of_the_file_is_not_followed(place: Folders, tmp_path: Path) -> None:
    place.book().keep("bash(git log *)")
    place.file.rename(tmp_path / "elsewhere")
    place.file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be read"):
        place.load()


def test_where_the_agent_could_write_it_nothing_is_kept_and_nothing_used(place: Folders) -> None:
    place.book().keep("bash(git log *)")
    text = place.file.read_text()
    inside = place.work / ".config"
    inside.mkdir()
    (inside / "rules.jsonl").write_text(text)
    (inside / "rules.jsonl").chmod(0o600)
    book = KeptRulesFile(inside, place.work, objection)
    with pytest.raises(ConfigError, match="lies in the workspace"):
        book.keep("bash(git log *)")
    assert book.load(place.told.append) == ()
    assert "lies in the workspace" in place.told[0]


def test_a_folder_that_cannot_be_written_is_said_and_nothing_changes(place: Folders) -> None:
    place.folder.parent.mkdir()
    place.folder.write_text("a file in the way")
    with pytest.raises(ConfigError, match=r"bash\(git log \*\) was not kept: .*cannot be changed"):
        place.book().keep("bash(git log *)")


def test_a_workspace_that_is_gone_is_said(place: Folders) -> None:
    shutil.rmtree(place.work)
    with pytest.raises(ConfigError, match="cannot be read"):
        place.book()


def test_several_processes_lose_nothing_of_each_other(place: Folders) -> None:
    code = (
        "import sys; from pathlib import Path; from codeagent.config.kept import KeptRulesFile\n"
        "book = KeptRulesFile(Path(sys.argv[1]), Path(sys.argv[2]), lambda rule: None)\n"
        "for number in range(20): book.keep(f'bash(make {sys.argv[3]}-{number})')"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, place.folder, place.work, name], env=os.environ.copy()
        )
        for name in ("a", "b", "c")
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    kept = {json.loads(line)["rule"] for line in place.file.read_text().splitlines()}
    assert kept == {
        f"bash(make {name}-{number})" for name in ("a", "b", "c") for number in range(20)
    }


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30))
def test_any_rule_that_is_kept_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    place = Folders(tmp_path_factory.mktemp("book"))
    rule = f"fetch({text})"
    try:
        place.book().keep(rule)
    except ConfigError:
        assert place.load() == ()
        return
    assert [str(kept) for kept in place.load()] == [rule]
