"""Checkpoints around batches, and the way back: files, conversation, or both."""

import asyncio
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from codeagent.agent.hooks.hook import Hook, Hooks
from codeagent.core.acts import Prompt, Restore, RestoreFile, Step, Stop
from codeagent.core.checkpoints import (
    ChangedFile,
    Node,
    OthersChanges,
    RestoreKind,
    Rewind,
    Snapshot,
)
from codeagent.core.errors import CheckpointError
from codeagent.core.events import CheckpointCreated, CheckpointRestored, RunFinished
from codeagent.core.messages import ToolCall, UserMessage, text_of
from codeagent.core.policy import ApprovalKey, Policy, Rule
from codeagent.core.tool import Access, Tool, ToolContext, ToolResult
from codeagent.session.fold import fold
from tests.agent.doubles import USE, Do, Scene, Turn, Using, of, scene
from tests.agent.memory_checkpoints import MemoryCheckpoints
from tests.agent.watching import notices, to_the_end, until, watched
from tests.fakes import FakeSandbox


class Put(Tool[Do]):
    """Writes the text `key` into the file `what`."""

    name: ClassVar[str] = "put"
    label: ClassVar[str] = "Put"
    description: ClassVar[str] = "Puts text into a file."
    permission = "auto"
    effect = "files"
    Args = Do

    def __init__(self, store: MemoryCheckpoints) -> None:
        self._store = store

    def access(self, args: Do, workspace: Any) -> Access:
        return Access("keyed", args.what)

    def target(self, args: Do) -> str:
        return args.what

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        self._store.files[args.what] = args.key
        return ToolResult.from_text("ok")


class Look(Put):
    """Changes nothing."""

    name: ClassVar[str] = "look"
    effect = "nothing"

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        return ToolResult.from_text("seen")


def put(path: str, text: str) -> tuple[str, str]:
    return "put", f'{{"what": "{path}", "key": "{text}"}}'


class Show(Put):
    """Is asked about, and only reads."""

    name: ClassVar[str] = "show"
    effect = "anything"

    def approval_key(self, args: Do) -> ApprovalKey:
        return ApprovalKey(
            kind="command", parts=(args.what,), sensitive="it runs here", reads="if asked"
        )


def begin(
    *turns: Turn, more: tuple[Tool[Any], ...] = (), **fields: Any
) -> tuple[Scene, MemoryCheckpoints]:
    store = MemoryCheckpoints({"a.py": "1"})
    s = scene(
        *turns, checkpoints=store, more=(Put(store), Look(store), Show(store), *more), **fields
    )
    watched(s)
    return s, store


async def say(s: Scene, text: str) -> None:
    done = len(of(s.events, RunFinished))
    s.act(Prompt(text))
    await to_the_end(s, done + 1)
    await s.agent._context.checkpoints.settled()
    await rewind(s).changes(rewind(s).points()[-1].id)


async def go(s: Scene, point: str, kind: RestoreKind, **more: Any) -> tuple[ChangedFile, ...]:
    refused = await s.agent.finish(Restore(point, kind, **more))
    if refused is not None:
        raise CheckpointError(refused.reason)
    return rewind(s).restored


def rewind(s: Scene) -> Rewind:
    assert s.agent.rewind is not None
    return s.agent.rewind


def causes(s: Scene) -> list[str]:
    return [event.cause for event in of(s.events, CheckpointCreated)]


def said(s: Scene) -> list[str]:
    return [text_of(m.content) for m in s.model.requests[-1].messages if isinstance(m, UserMessage)]


async def test_a_prompt_and_a_batch_that_may_change_files_get_their_points() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    await say(s, "fix it")
    assert causes(s) == ["prompt", "batch", "after"]
    labels = [event.label for event in of(s.events, CheckpointCreated)]
    assert labels == ["fix it", "put a.py", "put a.py"]
    assert store.kept[of(s.events, CheckpointCreated)[1].snapshot] == {"a.py": "1"}


async def test_a_batch_that_only_reads_gets_none() -> None:
    s, _ = begin(Turn("", (("look", '{"what": "x"}'),)), Turn("done"))
    await say(s, "look")
    assert causes(s) == ["prompt"]


async def test_nor_does_one_that_is_asked_about_although_it_only_reads() -> None:
    s, _ = begin(
        Turn("", (("show", '{"what": "ls"}'),)),
        Turn("done"),
        policy=Policy(rules=(Rule.parse("show", "auto"),)),
    )
    await say(s, "look")
    assert causes(s) == ["prompt"]


async def test_the_sandbox_stands_still_meanwhile() -> None:
    sandbox = FakeSandbox()
    s, _ = begin(Turn("", (put("a.py", "2"),)), Turn("done"), sandbox=sandbox)
    await say(s, "fix it")
    assert sandbox.freezes == 3


async def test_undo_waits_until_it_is_known_what_the_last_batch_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"), attended=True)
    known, take = asyncio.Event(), store.take

    async def slow(**options: Any) -> Snapshot:
        if causes(s)[-1:] == ["batch"]:
            await known.wait()
        return await take(**options)

    monkeypatch.setattr(store, "take", slow)
    s.act(Prompt("fix it"))
    await to_the_end(s, 1)
    assert causes(s) == ["prompt", "batch"]
    target = asyncio.ensure_future(rewind(s).undo_target())
    known.set()
    assert await target in rewind(s).points() and causes(s)[-1] == "after"


async def test_undo_brings_the_files_back_tells_the_model_and_redo_returns() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"), Turn("I see"), Turn("I see"))
    await say(s, "fix it")
    past = rewind(s)
    changed = await go(s, (await past.undo_target()).id, "undo")
    assert (store.files, [file.path for file in changed]) == ({"a.py": "1"}, ["a.py"])
    await say(s, "why?")
    assert said(s)[-2].startswith(
        "(The user took back changes. These files are no longer as you left them"
    )
    with pytest.raises(CheckpointError, match="nothing to bring back"):
        await past.redo_target()
    await go(s, past.points()[0].id, "rewind")
    await go(s, (await past.redo_target()).id, "redo")
    assert store.files == {"a.py": "1"}


async def test_redo_returns_what_undo_took() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("", (put("b.py", "3"),)), Turn("done"))
    await say(s, "fix it")
    past = rewind(s)
    await go(s, (await past.undo_target(2)).id, "undo")
    assert store.files == {"a.py": "1"}
    await go(s, (await past.redo_target()).id, "redo")
    assert store.files == {"a.py": "2", "b.py": "3"}


async def test_redo_of_files_tells_the_model_that_they_are_back() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"), Turn("I see"))
    await say(s, "fix it")
    past = rewind(s)
    await go(s, (await past.undo_target()).id, "undo")
    await go(s, (await past.redo_target()).id, "redo")
    await say(s, "and now?")
    assert [note.partition(".")[0] for note in said(s)[1:3]] == [
        "(The user took back changes",
        "(The user brought back what had been taken back",
    ]
    assert store.files == {"a.py": "2"}


async def test_redo_of_a_rewind_brings_the_conversation_too() -> None:
    s, _ = begin(Turn("", (put("a.py", "2"),)), Turn("done"), Turn("other"))
    await say(s, "first try")
    before = s.agent.history
    past = rewind(s)
    await go(s, past.points()[0].id, "rewind", conversation=True)
    await go(s, (await past.redo_target()).id, "redo")
    assert s.agent.history == before


async def test_a_file_as_the_agent_left_it_is_there_for_comparison() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    await say(s, "fix it")
    store.files["a.py"] = "mine"
    node = await rewind(s).left_by_agent("a.py")
    assert node is not None and node.data == b"2"


async def test_a_rewind_forgets_the_conversation_and_the_model_never_hears_of_it() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"), Turn("other"))
    await say(s, "first try")
    past = rewind(s)
    await go(s, past.points()[0].id, "rewind", conversation=True)
    await say(s, "second try")
    assert said(s) == ["second try"]
    assert store.files == {"a.py": "1"}


async def test_a_tool_recalls_no_result_that_was_taken_back() -> None:
    recalling = Using(lambda ctx: ctx.caller.recall("call_1"))
    turns = Turn("", (put("a.py", "2"),)), Turn("", (USE,)), Turn("done"), Turn("", (USE,))
    s, _ = begin(*turns, more=(recalling,))
    await say(s, "first try")
    await go(s, rewind(s).points()[0].id, "rewind", conversation=True)
    await say(s, "second try")
    assert recalling.found == ["ok", ""]


async def test_only_the_conversation_goes_back_where_that_is_asked_for() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"), Turn("other"))
    await say(s, "first try")
    past = rewind(s)
    assert await go(s, past.points()[0].id, "rewind", files=False, conversation=True) == ()
    assert store.files == {"a.py": "2"}
    await say(s, "second try")
    assert said(s) == ["second try"]


async def test_the_log_leads_to_the_same_conversation_also_after_going_back_and_forth() -> None:
    s, _ = begin(Turn("", (put("a.py", "2"),)), Turn("done"), Turn("other"), Turn("more"))
    await say(s, "first try")
    past = rewind(s)
    await go(s, past.points()[0].id, "rewind", conversation=True)
    await say(s, "second try")
    assert fold(s.journal.events).messages == s.agent.history
    await go(s, past.points()[0].id, "rewind", conversation=True)
    await go(s, (await past.redo_target()).id, "redo", conversation=True)
    assert fold(s.journal.events).messages == s.agent.history
    assert [text_of(m.content) for m in s.agent.history if isinstance(m, UserMessage)] == [
        "second try"
    ]


async def test_after_a_restart_the_way_back_is_the_same() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    await say(s, "first try")
    history = fold(s.journal.events)
    again, later = begin(Turn("other"), restored=history)
    later.kept, later.files = store.kept, store.files
    past = rewind(again)
    assert (await past.undo_target()).id == (await rewind(s).undo_target()).id
    await go(again, past.points()[0].id, "rewind", conversation=True)
    assert (later.files, again.agent.history) == ({"a.py": "1"}, ())


async def test_files_somebody_edited_after_the_agent_are_marked() -> None:
    s, store = begin(Turn("", (put("a.py", "2"), put("b.py", "3"))), Turn("done"))
    await say(s, "fix it")
    store.files["b.py"] = "mine"
    past = rewind(s)
    changes = await past.changes((await past.undo_target()).id)
    assert [(file.path, file.change, file.edited) for file in changes.files] == [
        ("a.py", "modified", False),
        ("b.py", "added", True),
    ]


async def test_edits_between_two_prompts_are_marked_too() -> None:
    s, store = begin(
        Turn("", (put("a.py", "2"),)), Turn("done"), Turn("", (put("a.py", "4"),)), Turn("done")
    )
    await say(s, "fix it")
    store.files["c.py"] = "mine"
    await say(s, "go on")
    past = rewind(s)
    changes = await past.changes(past.points()[0].id)
    assert [(file.path, file.edited) for file in changes.files] == [("a.py", False), ("c.py", True)]


async def test_only_some_files_go_back_and_the_others_stay() -> None:
    s, store = begin(Turn("", (put("a.py", "2"), put("b.py", "3"))), Turn("done"))
    await say(s, "fix it")
    past = rewind(s)
    await go(s, (await past.undo_target()).id, "undo", paths=("a.py",))
    assert store.files == {"a.py": "1", "b.py": "3"}


async def test_one_file_is_put_only_where_it_is_still_what_was_shown() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    await say(s, "fix it")
    past = rewind(s)
    shown = await past.node(None, "a.py")
    assert shown is not None
    s.act(RestoreFile("a.py", replace(shown, data=b"half"), shown))
    await s.agent.settled()
    assert store.files == {"a.py": "half"}
    s.act(RestoreFile("a.py", shown, shown))
    await s.agent.settled()
    assert "changed meanwhile" in notices(s, "act.failed")[0].text
    assert store.files == {"a.py": "half"}


async def test_a_file_name_that_is_no_text_goes_back_and_into_the_log() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    await say(s, "fix it")
    past = rewind(s)
    store.files["odd\udcff.py"] = "mine"
    changed = await go(s, (await past.undo_target()).id, "undo")
    assert {file.path for file in changed} == {"a.py", "odd\udcff.py"}
    restored = of(s.events, CheckpointRestored)[0]
    assert all(path.isprintable() for path in restored.files)


async def test_nothing_goes_back_while_the_agent_works() -> None:
    s, _ = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    s.act(Step(True))
    s.act(Prompt("fix it"))
    assert "the agent is working" in s.refusal(Restore("c1", "undo"))
    s.act(Stop())
    await to_the_end(s)


async def test_the_conversation_cannot_go_back_into_the_middle_of_a_run() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    await say(s, "fix it")
    past = rewind(s)
    with pytest.raises(CheckpointError, match="beginning of a prompt only; nothing was changed"):
        await go(s, (await past.undo_target()).id, "rewind", conversation=True)
    assert store.files == {"a.py": "2"}
    assert not of(s.events, CheckpointRestored)


async def test_a_store_that_fails_is_told_once_and_holds_nothing_up() -> None:
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("", (put("a.py", "3"),)), Turn("done"))
    store.broken = "the disk is full"
    s.act(Prompt("fix it"))
    await to_the_end(s)
    assert [notice.text for notice in notices(s, "checkpoint.failed")] == [
        "no checkpoint: the disk is full; /undo cannot take back what happens now"
    ]
    assert store.files == {"a.py": "3"}


async def test_a_store_that_crashes_is_told_in_a_line_and_the_run_goes_on() -> None:
    s, store = begin(Turn("done"), attended=True)

    async def crash() -> None:
        raise ValueError("boom")

    store.prune = crash  # type: ignore[method-assign]  # a store with a mistake in it
    s.agent.begin_checkpoints()
    await say(s, "hello")
    assert [notice.text for notice in notices(s, "checkpoint.failed")] == [
        "no checkpoint: internal error: ValueError: boom; /undo cannot take back what happens now"
    ]


async def test_plan_mode_needs_no_point_before_a_batch() -> None:
    s, _ = begin(Turn("", (put("a.py", "2"),)), Turn("a plan"), policy=Policy("plan"))
    await say(s, "plan it")
    assert causes(s) == ["prompt"]


async def test_at_the_start_a_broken_off_restore_is_finished_and_the_store_pruned() -> None:
    s, store = begin(Turn("done"))
    store.unfinished = "the going back of yesterday was finished"
    s.agent.begin_checkpoints()
    await until(lambda: store.pruned)
    await s.agent.close()
    assert [notice.text for notice in notices(s, "checkpoint.recovered")] == [
        "the going back of yesterday was finished"
    ]
    assert store.pruned == 1


async def test_a_first_snapshot_that_takes_long_says_how_far_it_is_and_holds_up_no_read() -> None:
    s, store = begin(Turn("", (("look", '{"what": "x"}'),)), Turn("done"))
    store.gate, store.scanned = asyncio.Event(), 12_345
    s.agent._context.checkpoints.patience = 0.001
    s.agent.begin_checkpoints()
    await until(lambda: notices(s, "checkpoint.first"))
    s.act(Prompt("look"))
    await to_the_end(s)
    assert store.taken == []
    assert notices(s, "checkpoint.first")[0].text == (
        "taking the first snapshot of this folder, 12,345 files so far: edits and commands wait for it, reads do not"
    )
    store.gate.set()
    await s.agent.close()


async def test_each_other_codeagent_in_the_folder_is_told_of_once_and_again_when_it_comes_back() -> (
    None
):
    s, store = begin(Turn("one"), Turn("two"), Turn("three"), Turn("four"), attended=True)
    for others in ((), (7,), (7, 8), (8,), (7, 8)):
        store.others = others
        await say(s, "hello") if others != () else s.agent.begin_checkpoints()
    told = [
        notice.text.partition("(")[2].partition(")")[0] for notice in notices(s, "workspace.shared")
    ]
    assert told == ["process 7", "process 8", "process 7"]


async def test_only_a_batch_that_writes_files_by_itself_says_that_no_commands_run() -> None:
    s, store = begin(
        Turn("", (put("a.py", "2"),)), Turn("", (("do", '{"what": "ok"}'),)), Turn("done")
    )
    await say(s, "fix it")
    assert list(zip(causes(s), store.moments, strict=False)) == [
        ("prompt", False),
        ("batch", False),
        ("after", False),
        ("batch", True),
        ("after", False),
    ]


@pytest.mark.parametrize("may_write", [True, False])
async def test_a_batch_that_only_writes_files_may_come_with_commands_if_a_hook_may_write(
    may_write: bool,
) -> None:
    hooks = Hooks((Hook("guard", may_write=may_write),))
    s, store = begin(Turn("", (put("a.py", "2"),)), Turn("done"), hooks=hooks)
    await say(s, "fix it")
    assert store.moments == [False, may_write, False]


async def test_what_is_not_the_agents_stays_and_what_both_changed_is_merged_or_refused() -> None:
    s, store = begin(Turn("", (put("a.py", "2"), put("b.py", "3"), put("c.py", "4"))), Turn("done"))
    await say(s, "fix it")
    store.files["d.py"] = "theirs"
    store.of_others = OthersChanges(
        frozenset({"d.py"}), {"a.py": Node("file", b"merged")}, {"b.py": "both changed it"}
    )
    past = rewind(s)
    changes = await past.changes((await past.undo_target()).id)
    assert [(file.path, file.edited) for file in changes.files] == [
        ("a.py", False),
        ("c.py", False),
    ]
    assert changes.refused == ("b.py: both changed it",)
    await go(s, (await past.undo_target()).id, "undo", seen=changes.present)
    assert store.files == {"a.py": "merged", "b.py": "3", "d.py": "theirs"}
    assert [notice.text for notice in notices(s, "checkpoint.left")] == [
        "left as it is: b.py: both changed it"
    ]


async def test_where_nobody_watches_the_end_waits_for_what_a_batch_is_owed_and_for_nothing_else() -> (
    None
):
    s, _ = begin(Turn("", (put("a.py", "2"),)), Turn("done"))
    s.act(Prompt("fix it"))
    await to_the_end(s)
    assert causes(s) == ["prompt", "batch", "after"]
    quick, slow = begin(Turn("done"))
    slow.gate = asyncio.Event()
    quick.act(Prompt("what is this?"))
    await to_the_end(quick)
    assert causes(quick) == []


class Moved(Put):
    """What it is about changes between two looks at the same call."""

    at = "locked"

    def approval_key(self, args: Do) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(self.at,))


MOVED = ToolCall(id="c1", name="put", arguments='{"what": "a.txt"}')
LOCKED = Policy(rules=(Rule.parse("put(locked)", "deny", "user"),))


async def test_a_call_that_its_rule_no_longer_denies_when_its_batch_begins_gets_a_checkpoint() -> (
    None
):
    tool = Moved(MemoryCheckpoints())
    calls = scene(more=(tool,), policy=LOCKED).agent._context.executor.calls
    assert (calls.plan(MOVED).permission, calls.change(MOVED)) == ("deny", "")
    tool.at = "free"
    assert calls.change(MOVED) == "put a.txt"


async def test_the_plan_of_a_call_is_about_what_holds_then_and_not_while_the_answer_came() -> None:
    tool = Moved(MemoryCheckpoints())
    tool.at = "free"
    calls = scene(more=(tool,), policy=LOCKED).agent._context.executor.calls
    assert not calls.may_begin_early(MOVED)
    tool.at = "locked"
    assert calls.plan(MOVED).permission == "deny"
