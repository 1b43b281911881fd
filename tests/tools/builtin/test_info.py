"""The info tool: everything about a tool or a skill, and the nearest names where there is none."""

import pytest

from codeagent.core.errors import MissingPath
from codeagent.core.memory import Skill, SkillText
from codeagent.core.messages import text_of
from codeagent.core.policy import Permission
from codeagent.core.tool import Access, NotFound, OpenArgs, Tool, ToolContext, ToolResult
from codeagent.tools.builtin.info import Info, InfoArgs
from tests.fakes import FakeSkills, tool_context
from tests.toolbox import Toolbox


class Deploy(Tool[OpenArgs]):
    name = "deploy"
    label = "Deploy"
    description = "Puts the app on staging."
    Args = OpenArgs
    schema = {"type": "object", "properties": {"target": {"type": "string"}}}  # noqa: RUF012  # as tools are written
    permission: Permission = "prompt"
    source = "python"
    origin = ".codeagent/tools/deploy.py:12"
    documentation = "First build.\n\nThen wait."
    max_calls = 2

    async def run(self, args: OpenArgs, ctx: ToolContext) -> ToolResult:
        raise AssertionError("it is only looked at, never called")


class Shelf:
    """Skills in memory: one of the project's, one of a user's with a file."""

    listed = (
        Skill("mine", "my way", "user", "/home/me/.config/codeagent/skills/mine/SKILL.md"),
        Skill("release", "how we release", "project", ".codeagent/skills/release/SKILL.md"),
    )

    def read(self, name: str, file: str | None = None) -> SkillText:
        if file is None:
            return SkillText(
                f"body of {name}\n", ("notes.md",) if name == "mine" else ("a/run.sh",)
            )
        if file != "notes.md":
            raise MissingPath(file)
        return SkillText("the notes")


async def told(box: Toolbox, name: str) -> str:
    tools = [*box.registry, Deploy()]
    info = Info(lambda: tools, Shelf())
    return text_of((await info.run(InfoArgs(name=name), tool_context(box.workspace))).content)


async def test_a_tool_is_told_whole(box: Toolbox) -> None:
    text = await told(box, "deploy")
    assert text.startswith(
        "# deploy (python, .codeagent/tools/deploy.py:12)\n\nPuts the app on staging.\n\nFirst"
    )
    assert "Facts: the user is asked, at most 2 calls in a run." in text
    assert '"target": {"type": "string"}' in text


async def test_a_built_in_tool_is_told_with_its_schema(box: Toolbox) -> None:
    assert '"command"' in await told(box, "bash")


async def test_a_skill_is_told_with_how_its_files_are_opened(box: Toolbox) -> None:
    text = await told(box, "release")
    assert text.startswith(
        "# Skill release (.codeagent/skills/release/SKILL.md)\n\nbody of release"
    )
    assert text.endswith("opened with read:\na/run.sh")
    assert 'opened with info("mine/FILE"):\nnotes.md' in await told(box, "mine")


async def test_a_file_of_a_users_skill_is_told_and_one_of_a_projects_is_left_to_read(
    box: Toolbox,
) -> None:
    assert await told(box, "mine/notes.md") == "the notes"
    with pytest.raises(NotFound, match=r"file 'none\.md' in the skill mine does not exist"):
        await told(box, "mine/none.md")
    with pytest.raises(NotFound, match=r"read \.codeagent/skills/release/a/run\.sh"):
        await told(box, "release/a/run.sh")


async def test_an_unknown_name_is_answered_with_the_closest_or_with_all(box: Toolbox) -> None:
    with pytest.raises(NotFound, match="did you mean deploy"):
        await told(box, "depoly")
    with pytest.raises(NotFound, match="did you mean release"):
        await told(box, "Releas")
    with pytest.raises(NotFound, match="there are bash, read"):
        await told(box, "zzzzzz")


def test_it_is_of_use_only_where_there_is_more_to_tell(box: Toolbox) -> None:
    assert not Info.is_useful(tuple(box.registry), FakeSkills())
    assert Info.is_useful([*box.registry, Deploy()], FakeSkills())
    assert Info.is_useful(tuple(box.registry), Shelf())


def test_it_disturbs_nothing(box: Toolbox) -> None:
    access = Info(lambda: (), FakeSkills()).access(InfoArgs(name="x"), box.workspace)
    assert not access.conflicts(Access("keyed", "a.txt"))
