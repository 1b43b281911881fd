"""What a child changed in its worktree comes into the workspace file by file and hunk by hunk, or
not at all."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from codeagent.agent.agent import Agent
from codeagent.agent.hooks.hook import Deny, Hook, Hooks, Modify
from codeagent.core.acts import Answer, SetMode
from codeagent.core.agents import AgentDefinition
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.cancel import CancelToken
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node, NodeKind
from codeagent.core.display import DiffBlock, TextBlock
from codeagent.core.events import KnownEvent
from codeagent.core.messages import ErrorInfo, ToolCall, text_of
from codeagent.core.policy import Decision, Mode, Policy, Rule
from codeagent.core.tool import Cancelled, ToolContext, ToolResult
from codeagent.extensions.agents.children import Children, Parent, _merged
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import scene
from tests.workspace.test_git_status import git

LINES = [f"line {number}" for number in range(1, 30)]
TEXT = "\n".join([*LINES, ""])
TWO_HUNKS = TEXT.replace("line 3\n", "line three\n").replace("line 12\n", "line twelve\n")
Content = bytes | str | None


def node(content: Content, kind: NodeKind = "file") -> Node | None:
    return (
        None
        if content is None
        else Node(kind, content.encode() if isinstance(content, str) else content)
    )


@dataclass
class Copied:
    """A Worktree of these files, each as it was and as it is."""

    files: Mapping[str, tuple[Node | None, Node | None]]
    left_out: tuple[str, ...] = ()

    async def changed(self) -> tuple[str, ...]:
        return tuple(sorted(self.files))

    async def file(self, path: str) -> Change[Node]:
        return Change(path, *self.files[path])

    async def remove(self) -> None:
        raise AssertionError("whoever made it removes it")


@dataclass
class Merged:
    """A workspace with the files as they were, and what becomes of them."""

    root: Path
    worktree: Copied
    policy: Policy = Policy()  # noqa: RUF009  # frozen
    hooks: Hooks = Hooks()  # noqa: RUF009  # frozen
    mode: Mode | None = None
    """Of the child."""
    answers: list[Decision] = field(default_factory=list)
    """To the questions, in order; then they are cancelled."""
    meanwhile: Callable[[], None] = lambda: None
    """Called with every question."""
    asked: list[ApprovalRequested] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    agent: Agent = field(init=False)

    async def carry_out(self, result: ToolResult | None = None) -> ToolResult:
        children, token = Children(), CancelToken()
        parent = scene(policy=self.policy, attended=True, hooks=self.hooks, parts=(children,))
        agent, answers = parent.agent, list(self.answers)

        def see(event: KnownEvent) -> None:
            if not isinstance(event, ApprovalRequested):
                return
            self.asked.append(event)
            self.meanwhile()
            if answers:
                agent.do(Answer(event.approval_id, answers.pop(0)))
            else:
                token.cancel("stopped")

        self.agent = agent
        agent.observe(see)
        workspace = LocalWorkspace(self.root)
        agent._environment = replace(agent._environment, workspace=workspace)
        context = ToolContext("call_1", "agent", workspace, None, token)
        definition = AgentDefinition("helper", "helps", mode=self.mode)
        above = Parent.of(children._host, "call_1", 1)
        above = replace(above, environment=agent._environment)
        done = result or ToolResult.from_text("done")
        try:
            return await _merged(self.worktree, done, definition, above, token, context)
        finally:
            self.outputs = parent.outputs.texts
            workspace.close()

    def now(self) -> dict[str, str]:
        return {
            path.relative_to(self.root).as_posix(): path.read_text()
            for path in self.root.rglob("*")
        }


def merged(
    root: Path, files: Mapping[str, tuple[Content, Content]], *answers: Decision, **more: object
) -> Merged:
    for path, (before, _) in files.items():
        if before is not None:
            (root / path).write_bytes(before.encode() if isinstance(before, str) else before)
    pairs = {path: (node(before), node(after)) for path, (before, after) in files.items()}
    return Merged(root, Copied(pairs), answers=list(answers), **more)  # type: ignore[arg-type]  # fields of Merged


ONCE, NO = Decision("once"), Decision("deny", "not this one")


async def test_each_file_is_asked_about_as_a_change_that_can_be_taken_by_hunk(
    tmp_path: Path,
) -> None:
    work = merged(tmp_path, {"a.txt": (TEXT, TWO_HUNKS), "b.txt": (None, "new\n")}, ONCE, NO)
    result = await work.carry_out()
    assert [(event.name, event.target, event.by_hunk) for event in work.asked] == [
        ("write", "a.txt", True),
        ("write", "b.txt", True),
    ]
    assert [event.reason for event in work.asked] == [
        "changed by the agent helper in its worktree (1 of 2; a yes for the session takes the rest)",
        "changed by the agent helper in its worktree",
    ]
    assert work.now() == {"a.txt": TWO_HUNKS}
    assert "Taken into the workspace: M a.txt" in text_of(result.content)
    assert "Not taken: b.txt (not this one). All that it changed: output_read(id=" in text_of(
        result.content
    )
    assert "+new" in work.outputs["out_1"] and "+line three" in work.outputs["out_1"]


async def test_only_the_hunks_that_the_user_took_are_applied_with_their_own_words(
    tmp_path: Path,
) -> None:
    work = merged(
        tmp_path, {"a.txt": (TEXT, TWO_HUNKS)}, Decision("once", hunks=(False, ("line 12, by me",)))
    )
    result = await work.carry_out()
    assert work.now() == {"a.txt": TEXT.replace("line 12\n", "line 12, by me\n")}
    assert result.error is None and "a.txt (in part)" in text_of(result.content)


async def test_an_answer_that_does_not_fit_the_hunks_is_asked_for_again(tmp_path: Path) -> None:
    work = merged(
        tmp_path,
        {"a.txt": (TEXT, TWO_HUNKS)},
        Decision("once", hunks=(True,)),
        Decision("edit"),
        ONCE,
    )
    await work.carry_out()
    assert len(work.asked) == 3 and "does not fit this change" in work.asked[1].reason
    assert "cannot be edited here" in work.asked[2].reason
    assert work.now() == {"a.txt": TWO_HUNKS}


async def test_a_yes_for_the_session_takes_the_rest_but_what_is_always_asked_about(
    tmp_path: Path,
) -> None:
    files = {
        "a.txt": ("1\n", "2\n"),
        "b.txt": ("1\n", "2\n"),
        "c.envrc/.envrc": (None, "export A=1\n"),
    }
    work = merged(tmp_path, files, Decision("session"), NO)
    await work.carry_out()
    assert [event.target for event in work.asked] == ["a.txt", "c.envrc/.envrc"]
    assert work.now() == {"a.txt": "2\n", "b.txt": "2\n"}


async def test_rules_about_writing_decide_without_a_question(tmp_path: Path) -> None:
    rules = (Rule.parse("write(a.txt)", "auto"), Rule.parse("write(b.txt)", "deny"))
    work = merged(
        tmp_path, dict.fromkeys(("a.txt", "b.txt"), ("1\n", "2\n")), policy=Policy(rules=rules)
    )
    result = await work.carry_out()
    assert work.asked == [] and work.now() == {"a.txt": "2\n", "b.txt": "1\n"}
    assert "b.txt (denied by the rule write(b.txt))" in text_of(result.content)


async def test_a_stop_in_the_middle_of_the_questions_takes_nothing(tmp_path: Path) -> None:
    work = merged(tmp_path, dict.fromkeys(("a.txt", "b.txt"), ("1\n", "2\n")), ONCE)
    with pytest.raises(Cancelled) as stopped:
        await work.carry_out()
    assert len(work.asked) == 2 and work.now() == {"a.txt": "1\n", "b.txt": "1\n"}
    told = text_of(stopped.value.content)
    assert told.startswith("done\n\n") and 'All that it changed: output_read(id="out_1")' in told


async def test_a_file_changed_before_the_questions_is_a_conflict_for_all_of_it(
    tmp_path: Path,
) -> None:
    work = merged(tmp_path, dict.fromkeys(("a.txt", "b.txt"), ("1\n", "2\n")))
    (tmp_path / "b.txt").write_text("mine\n")
    result = await work.carry_out()
    assert work.asked == [] and work.now() == {"a.txt": "1\n", "b.txt": "mine\n"}
    assert result.error is not None and result.error.message.startswith(
        "Nothing of what it changed was taken: changed here in the meantime: b.txt."
    )


async def test_a_file_changed_during_the_questions_leaves_every_file_as_it_is(
    tmp_path: Path,
) -> None:
    def change() -> None:
        (tmp_path / "b.txt").write_text("mine\n")

    files = dict.fromkeys(("a.txt", "b.txt"), ("1\n", "2\n"))
    work = merged(tmp_path, files, ONCE, ONCE, meanwhile=change)
    result = await work.carry_out()
    assert work.now() == {"a.txt": "1\n", "b.txt": "mine\n"}
    assert result.error is not None and "no file was changed" in result.error.message


async def test_what_is_the_same_by_now_is_not_asked_about_and_a_removal_is(tmp_path: Path) -> None:
    work = merged(
        tmp_path,
        {"a.txt": ("1\n", "2\n"), "b.txt": ("1\n", None), "c.bin": (b"\0", b"\0\1")},
        ONCE,
        ONCE,
    )
    (tmp_path / "a.txt").write_text("2\n")
    await work.carry_out()
    assert [event.target for event in work.asked] == ["b.txt", "c.bin"]
    assert [event.by_hunk for event in work.asked] == [False, False]
    assert work.now() == {"a.txt": "2\n", "c.bin": "\0\1"}


async def test_a_workspace_that_already_has_all_of_it_is_not_an_error(tmp_path: Path) -> None:
    work = merged(tmp_path, {"a.txt": ("1\n", "2\n")})
    (tmp_path / "a.txt").write_text("2\n")
    result = await work.carry_out()
    assert (result.error, work.asked) == (None, [])
    assert text_of(result.content).endswith("The workspace already has all that it changed.")


async def test_the_diff_that_is_kept_is_one_that_git_applies(tmp_path: Path) -> None:
    files = {
        "a.txt": (TEXT, TWO_HUNKS + "last\n"),
        "new.txt": (None, "1\n2\n"),
        "gone.txt": ("x\n", None),
    }
    work = merged(tmp_path, files, NO, NO, NO)
    await work.carry_out()
    (tmp_path / "kept").write_text(work.outputs["out_1"])
    git(tmp_path, "apply", "--unidiff-zero", "kept")
    assert work.now() == {
        "a.txt": TWO_HUNKS + "last\n",
        "new.txt": "1\n2\n",
        "kept": work.outputs["out_1"],
    }


async def test_what_the_model_may_not_read_without_a_question_is_not_in_the_diff(
    tmp_path: Path,
) -> None:
    files = {
        "d.env": ("KEY=hidden\n", None),
        "kept.txt": ("hidden\n", "x\n"),
        "z.txt": ("1\n", "2\n"),
    }
    work = merged(
        tmp_path, files, NO, NO, NO, policy=Policy(rules=(Rule.parse("read(kept.txt)", "prompt"),))
    )
    await work.carry_out()
    assert "hidden" not in work.outputs["out_1"] and "+2" in work.outputs["out_1"]
    assert work.outputs["out_1"].count(": changed, and not for the model to read") == 2


async def test_links_and_permissions_are_named_and_not_taken(tmp_path: Path) -> None:
    work = merged(tmp_path, {"run.sh": ("x\n", "x\n"), "a.txt": ("1\n", "2\n")}, ONCE)
    files = {
        "run.sh": (node("x\n"), node("x\n", "executable")),
        "link": (None, node("/etc/passwd", "link")),
    }
    work.worktree = Copied({**work.worktree.files, **files})
    result = await work.carry_out()
    assert "Not taken: link (a link), run.sh (that it can be run)" in text_of(result.content)
    assert work.now() == {"a.txt": "2\n", "run.sh": "x\n"}


async def test_a_child_that_is_to_ask_is_asked_about_in_a_session_that_would_not_ask(
    tmp_path: Path,
) -> None:
    work = merged(tmp_path, {"a.txt": ("1\n", "2\n")}, NO, policy=Policy("auto"), mode="ask")
    await work.carry_out()
    assert len(work.asked) == 1 and work.now() == {"a.txt": "1\n"}
    work.mode = None
    await work.carry_out()
    assert len(work.asked) == 1 and work.now() == {"a.txt": "2\n"}


async def test_hooks_that_judge_writing_judge_what_is_taken(tmp_path: Path) -> None:
    judged: list[dict[str, str]] = []

    async def judge(call: ToolCall) -> bool | Deny | Modify:
        judged.append(json.loads(call.arguments))
        path = judged[-1]["path"]
        return {"a.txt": Deny("frozen"), "b.txt": Modify({"path": path, "content": "3\n"})}.get(
            path, True
        )

    files = {
        "a.txt": ("1\n", "2\n"),
        "b.txt": ("1\n", "2\n"),
        "c.txt": ("1\n", "2\n"),
        "d.bin": (None, b"\0"),
    }
    work = merged(
        tmp_path,
        files,
        policy=Policy("accept-edits"),
        hooks=Hooks((Hook("h", judge, tools="write"),)),
    )
    result = await work.carry_out()
    assert judged == [
        *({"path": f"{name}.txt", "content": "2\n"} for name in "abc"),
        {"path": "d.bin"},
    ]
    told = "Not taken: a.txt (frozen), b.txt (a hook would change what is written)."
    assert told in text_of(result.content) and work.now()["c.txt"] == "2\n"
    auto = "the mode accept-edits does not ask"
    assert result.details["worktree"]["unasked"] == {"c.txt": auto, "d.bin": auto}  # type: ignore[index,call-overload]  # JSON


async def test_links_in_the_workspace_are_conflicts_wherever_they_lead(tmp_path: Path) -> None:
    def link(path: str, target: str) -> None:
        (tmp_path / path).unlink(missing_ok=True)
        (tmp_path / path).symlink_to(target)

    (tmp_path / "same.txt").write_text("1\n")
    (tmp_path / "other").mkdir()
    files = {"a.txt": ("1\n", "2\n"), "b.txt": (None, "new\n"), "d/c.txt": (None, "new\n")}
    work = merged(tmp_path, files)
    for path, target in {"a.txt": "same.txt", "b.txt": "gone.txt", "d": "other"}.items():
        link(path, target)
    result = await work.carry_out()
    assert work.asked == [] and (tmp_path / "same.txt").read_text() == "1\n"
    assert "changed here in the meantime: a.txt, b.txt, d/c.txt." in text_of(result.content)


async def test_a_path_that_becomes_a_link_during_the_questions_is_not_written_through(
    tmp_path: Path,
) -> None:
    def link() -> None:
        (tmp_path / "new.txt").symlink_to(".envrc")

    work = merged(tmp_path, {"new.txt": (None, "export A=1\n")}, ONCE, meanwhile=link)
    result = await work.carry_out()
    assert (
        result.error is not None
        and "new.txt has become a link, or is behind one" in result.error.message
    )
    assert not (tmp_path / ".envrc").exists()


async def test_what_cannot_be_read_here_is_a_conflict_and_the_diff_stays_whole(
    tmp_path: Path,
) -> None:
    work = merged(tmp_path, {"a.txt": ("1\n", "2\n"), "b.txt": ("1\n", "2\n")})
    (tmp_path / "a.txt").unlink()
    (tmp_path / "a.txt").mkdir()
    result = await work.carry_out()
    assert "changed here in the meantime: a.txt." in text_of(result.content)
    assert work.outputs["out_1"].count("+2\n") == 2 and 'output_read(id="out_1")' in text_of(
        result.content
    )


async def test_hunks_are_no_answer_to_a_removal(tmp_path: Path) -> None:
    work = merged(tmp_path, {"a.txt": ("1\n", None)}, Decision("once", hunks=(False,)), NO)
    await work.carry_out()
    assert work.now() == {"a.txt": "1\n"}
    assert "this cannot be answered hunk by hunk" in work.asked[1].reason


async def test_what_may_not_be_edited_is_not_taken_and_plan_mode_begun_meanwhile_takes_nothing(
    tmp_path: Path,
) -> None:
    rules = (Rule.parse("edit(a.txt)", "deny"),)
    work = merged(tmp_path, {"a.txt": ("1\n", "2\n")}, policy=Policy("auto", rules))
    assert "a.txt (denied by the rule edit(a.txt))" in text_of((await work.carry_out()).content)
    late = merged(tmp_path, {"a.txt": ("1\n", "2\n")}, ONCE)
    late.meanwhile = lambda: late.agent.do(SetMode("plan"))
    assert "plan mode changes nothing" in text_of((await late.carry_out()).content)
    assert work.now() == {"a.txt": "1\n"}


async def test_a_change_that_no_diff_shows_is_told_in_words(tmp_path: Path) -> None:
    work = merged(tmp_path, {"a.txt": ("\ufeffx\n".encode(), b"x\n"), "run.sh": ("x\n", "x\n")}, NO)
    work.worktree = Copied(
        {**work.worktree.files, "run.sh": (node("x\n", "executable"), node("x\n"))},
        ("big: too large",),
    )
    result = await work.carry_out()
    assert work.asked[0].blocks == (
        TextBlock(text="a.txt, whose text stays the same, becomes 2 bytes"),
    )
    assert "big: too large, run.sh (that it can no longer be run), a.txt (not this one)" in text_of(
        result.content
    )
    nothing = merged(tmp_path, {})
    nothing.worktree = Copied({}, ("big: too large",))
    result = await nothing.carry_out()
    assert "Not taken: big: too large." in text_of(result.content) and result.error is not None


async def test_nothing_of_a_child_that_failed_is_offered_but_its_diff_is_kept(
    tmp_path: Path,
) -> None:
    work = merged(tmp_path, {"a.txt": ("1\n", "2\n")})
    failed = ToolResult.from_text("too slow", error=ErrorInfo(kind="timeout", message="too slow"))
    result = await work.carry_out(failed)
    assert (work.asked, work.now(), result.error) == ([], {"a.txt": "1\n"}, failed.error)
    assert "output_read(id=" in text_of(result.content) and "+2" in work.outputs["out_1"]
    assert any(isinstance(block, DiffBlock) for block in result.blocks)


async def test_too_many_files_are_kept_as_a_diff_and_not_offered(tmp_path: Path) -> None:
    files = {f"{number}.txt": (None, f"{number}\n") for number in range(101)}
    work = merged(tmp_path, files)
    result = await work.carry_out()
    assert result.error is not None and work.now() == {}
    assert "101 files (too much to be offered)" in text_of(result.content)


async def test_a_child_that_changed_nothing_says_so(tmp_path: Path) -> None:
    result = await merged(tmp_path, {}).carry_out()
    assert (text_of(result.content), result.error) == ("done\n\nIt changed no file.", None)
