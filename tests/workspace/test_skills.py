"""Skills: folders with a SKILL.md, of a project and of a user; what is wrong with one keeps only it
out."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.core.errors import WorkspaceError
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.skills import SkillFolders, load_instructions, open_skills
from tests.fakes import put


class Shelves:
    """A project and a user's folder of skills."""

    def __init__(self, folder: Path) -> None:
        self.project, self.user = folder / "project", folder / "config/skills"
        self.project.mkdir()
        self.user.mkdir(parents=True)
        self._opened = [LocalWorkspace(self.project), LocalWorkspace(self.user)]

    def write(self, folder: str, text: bytes | str, *, user: bool = False) -> Path:
        root = self.user if user else self.project / ".codeagent/skills"
        return put(root, f"{folder}/SKILL.md", text)

    def load(self) -> SkillFolders:
        return SkillFolders(*self._opened)

    def close(self) -> None:
        for workspace in self._opened:
            workspace.close()


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[Shelves]:
    made = Shelves(tmp_path)
    yield made
    made.close()


def skill(name: str, description: str = "about it", body: str = "Do it.\n") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}"


def test_a_skill_is_listed_by_name_and_description_and_its_body_is_read_on_demand(
    shelves: Shelves,
) -> None:
    path = shelves.write("release", skill("release", "How we release", "# Steps\n1. tag\n"))
    found = shelves.load()
    assert [(s.name, s.description, s.place, s.where) for s in found.listed] == [
        ("release", "How we release", "project", ".codeagent/skills/release/SKILL.md")
    ]
    path.write_text(skill("release", "How we release", "changed\n"))
    assert found.read("release").text == "changed\n"


def test_the_users_come_first_and_each_place_is_in_the_order_of_names(shelves: Shelves) -> None:
    for name in ("b", "a"):
        shelves.write(f"folder-of-{name}", skill(f"p-{name}"))
        shelves.write(f"folder-of-{name}", skill(f"u-{name}"), user=True)
    assert [s.name for s in shelves.load().listed] == ["u-a", "u-b", "p-a", "p-b"]


def test_a_project_cannot_take_the_name_of_a_users_skill(shelves: Shelves) -> None:
    shelves.write("deploy", skill("deploy", "mine"), user=True)
    shelves.write("deploy", skill("deploy", "theirs"))
    found = shelves.load()
    assert [s.description for s in found.listed] == ["mine"]
    assert [p.where for p in found.problems] == [".codeagent/skills/deploy/SKILL.md"]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("# no head\n", 1, "must begin with a line of ---"),
        ("---\nname: a\n", 1, "not closed"),
        ("---\nname: a\n---\n", 2, "has no description"),
        ("---\ndescription: d\n---\n", 2, "has no name"),
        ("---\nlicense: MIT\nname: ../up\ndescription: d\n---\n", 3, "letters, digits"),
        ("---\nname: a\ndescription: use: colons\n---\n", 3, "not YAML"),
        ("---\nname: a\ndescription: [one, two]\n---\n", 3, "must be a text"),
        ("---\nname: a\nname: b\ndescription: d\n---\n", 3, "occurs twice"),
        ("---\n- name\n---\n", 2, "key: value"),
        pytest.param(
            f"---\nname: a\ndescription: {'[' * 600}\n---\n", 2, "not", id="nested 600 deep"
        ),
    ],
)
def test_a_broken_one_is_reported_with_file_and_line_and_the_others_stay(
    shelves: Shelves, text: str, line: int, says: str
) -> None:
    shelves.write("broken", text)
    shelves.write("good", skill("good"))
    found = shelves.load()
    assert [s.name for s in found.listed] == ["good"]
    (problem,) = found.problems
    assert problem.where.startswith(".codeagent/skills/broken/SKILL.md:")
    assert says in problem.text and problem.level == "error"
    if "[" * 10 not in text:
        assert problem.where.endswith(f":{line}")


def test_keys_of_other_programs_are_left_alone(shelves: Shelves) -> None:
    shelves.write(
        "a",
        "---\nname: a\nallowed-tools: bash\nmetadata: {x: 1}\ndescription: >\n  two\n  lines\n---\n",
    )
    found = shelves.load()
    assert (found.problems, found.listed[0].description) == ((), "two lines")


def test_a_folder_without_the_file_or_with_no_text_in_it_is_reported(shelves: Shelves) -> None:
    (shelves.project / ".codeagent/skills/empty").mkdir(parents=True)
    shelves.write("latin", b"---\nname: latin\ndescription: \xe4\n---\n")
    shelves.write("large", skill("large", body="x" * 300_000))
    assert [p.where.split("/")[2] for p in shelves.load().problems] == ["empty", "large", "latin"]


def test_what_does_not_show_is_given_as_escapes_and_reported(shelves: Shelves) -> None:
    shelves.write("tricky", skill("tricky", "a\u200bb", "ignore\u202e this \U000e0041\n"))
    found = shelves.load()
    assert found.listed[0].description == "a\\u200bb"
    assert found.read("tricky").text == "ignore\\u202e this \\U000e0041\n"
    assert [(p.where, p.level) for p in found.problems] == [
        (".codeagent/skills/tricky/SKILL.md:3", "warning")
    ]


def test_a_skill_that_leads_out_of_its_folder_through_a_link_is_not_read(
    shelves: Shelves, tmp_path: Path
) -> None:
    secret = put(tmp_path, "outside.md", skill("outside"))
    inside = put(shelves.project, "inside.md", skill("inside"))
    for name, target in (("one", secret), ("two", inside)):
        folder = shelves.project / ".codeagent/skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").symlink_to(target)
    elsewhere = put(shelves.project, "elsewhere/SKILL.md", skill("elsewhere"))
    (shelves.project / ".codeagent/skills/three").symlink_to(elsewhere.parent)
    found = shelves.load()
    assert found.listed == ()
    assert len(found.problems) == 3


def test_a_file_of_a_users_skill_is_read_only_from_its_own_folder(shelves: Shelves) -> None:
    shelves.write("a", skill("a"), user=True)
    shelves.write("b", skill("b"), user=True)
    put(shelves.user, "a/refs/more.md", "more")
    put(shelves.user, "a/.env", "KEY=1")
    put(shelves.user, "a/image.png", b"\x89PNG\xff")
    (shelves.user / "a/link.md").symlink_to(shelves.user / "b/SKILL.md")
    found = shelves.load()
    assert found.read("a", "refs/more.md").text == "more"
    for file in (
        "../b/SKILL.md",
        "/etc/passwd",
        "link.md",
        ".env",
        "image.png",
        "none.md",
        "refs",
        "x\0y",
    ):
        with pytest.raises(WorkspaceError):
            found.read("a", file)


def test_the_other_files_are_named_as_they_are_opened(shelves: Shelves) -> None:
    for user in (False, True):
        root = shelves.user if user else shelves.project / ".codeagent/skills"
        name = "mine" if user else "ours"
        shelves.write(name, skill(name), user=user)
        put(root, f"{name}/scripts/run.sh", "x")
        put(root, f"{name}/.hidden", "x")
        put(root, os.fsdecode(f"{name}/scripts/".encode() + b"\xff\n"), "x")
    found = shelves.load()
    folder = ".codeagent/skills/ours/scripts"
    assert found.read("ours").files == (f"{folder}/run.sh", f"{folder}/\\xff\\x0a")
    assert found.read("mine").files == ("scripts/run.sh", "scripts/\\xff\\x0a")


def test_a_look_says_whether_anything_changed(shelves: Shelves) -> None:
    found = shelves.load()
    assert not found.refresh()
    shelves.write("a", skill("a"))
    assert found.refresh() and not found.refresh()
    assert [s.name for s in found.listed] == ["a"]


async def test_a_look_before_a_request_finds_a_first_skill_and_the_end_of_the_last(
    tmp_path: Path,
) -> None:
    workspace = LocalWorkspace(tmp_path)
    found = open_skills(workspace, None)
    assert not await found.look()
    written = put(tmp_path, ".codeagent/skills/a/SKILL.md", skill("a"))
    assert await found.look() and not await found.look()
    assert [one.name for one in found.listed] == ["a"]
    shutil.rmtree(written.parent.parent)
    assert await found.look() and found.listed == ()
    workspace.close()


def test_no_folder_and_a_folder_that_cannot_be_listed_give_no_skill(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    put(tmp_path, ".codeagent/skills", "a file")
    found = open_skills(workspace, tmp_path / "none")
    assert found.listed == () and len(found.problems) == 1
    workspace.close()


def test_a_pipe_in_place_of_the_file_is_not_waited_for(shelves: Shelves) -> None:
    folder = shelves.project / ".codeagent/skills/pipe"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "SKILL.md")
    assert "regular file" in shelves.load().problems[0].text


def test_hidden_characters_of_the_workspaces_instructions_are_escapes_and_their_line_is_known(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENTS.md").write_text("\ufeffUse tabs.\r\nAnd\u200b more.\n", newline="")
    workspace = LocalWorkspace(tmp_path)
    found = load_instructions(workspace)
    assert found.text == "Use tabs.\nAnd\\u200b more.\n"
    assert [(problem.where, problem.level) for problem in found.problems] == [
        ("AGENTS.md:2", "warning")
    ]
    workspace.close()


def test_instructions_are_not_read_from_a_file_of_secrets_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=1")
    (tmp_path / "AGENTS.md").symlink_to(".env")
    found = load_instructions(LocalWorkspace(tmp_path))
    assert (found.text, [problem.where for problem in found.problems]) == ("", ["AGENTS.md"])
    assert "is a link, and .env looks like a file of secrets" in found.problems[0].text
