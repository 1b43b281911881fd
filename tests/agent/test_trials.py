"""A command that nobody decided about is tried out, and what it would change is decided about."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from codeagent.core.acts import Answer, RunShell, Stop
from codeagent.core.approval_events import ApprovalRequested, EffectsFound
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.display import DiffBlock
from codeagent.core.effects import Effect
from codeagent.core.errors import PartlyChanged
from codeagent.core.events import KnownEvent, ToolResultAdded, ToolStarted
from codeagent.core.messages import text_of
from codeagent.core.policy import Decision, Mode, Policy, Rule
from codeagent.core.sandbox import Command, CommandResult, OnOutput
from codeagent.core.tool import Tool, ToolContext, ToolResult
from codeagent.sandbox.layers import Layer
from codeagent.tools.shell.run import run_command
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Do, Scene, Turn, do, of, scene
from tests.fakes import FakeOutputs, FakeSandbox
from tests.layers import Layered, Tree, make_tree, tree_of
from tests.table import for_each

BEFORE = {"src/a": "1\n2\n3\n", "src/b": "old\n", "ci/x": "x\n"}


class Try(Tool[Do]):
    """Runs its argument as a command, as bash does."""

    name = "try"
    label = "Try"
    description = "Runs a command."
    permission = "prompt"
    effect = "anything"
    sandboxed = True
    tries = True
    Args = Do

    async def run(self, args: Do, ctx: ToolContext) -> ToolResult:
        assert ctx.sandbox is not None
        command = Command(args.what, ctx.call_id, ctx.read_only)
        run = await run_command(ctx.sandbox, command, FakeOutputs(), ctx.on_update)
        return run.answer({})


@dataclass(frozen=True)
class Tried:
    """A Trial in a layer made by hand."""

    view: Layered
    began_ns: int
    result: CommandResult

    async def effects(self) -> tuple[Effect, ...]:
        return self.view.effects()

    async def changes(self, effects: Sequence[Effect]) -> tuple[Change[Node], ...]:
        return self.view.changes(effects)

    async def land(
        self,
        effects: Sequence[Effect],
        left: Collection[str] = (),
        parts: Sequence[Change[Node]] = (),
    ) -> None:
        for part in parts:
            self.view.replace(part)
        self.view.land(left, effects)

    async def close(self) -> None: ...


class Viewing(FakeSandbox):
    """A command is words of the form `path=text`; `path=` removes the file. `exit=3` ends it so."""

    def __init__(self, root: Path, layers: Path) -> None:
        super().__init__()
        self.untried = ""
        self.root = root
        self._layers = layers
        self.during: Callable[[], object] = lambda: None
        """Done while the command runs."""
        self.in_place: list[Command] = []
        self.also: Callable[[Path], object] = lambda upper: None
        """What the command does besides, in the layer's folder."""

    async def run(self, command: Command, on_output: OnOutput) -> CommandResult:
        self.in_place.append(command)
        return await super().run(command, on_output)

    async def prepare_trials(self) -> None:
        self.untried = ""

    async def try_out(self, command: Command, on_output: OnOutput) -> Tried:
        self.commands.append(command)
        view = Layered.over(self.root, self._layers / str(len(self.commands)))
        began = Layer(view.folder).now()
        time.sleep(0.01)  # noqa: ASYNC251  # the file system's clock moves on
        self.during()
        after, code = tree_of(self.root), 0
        for path, _, text in (word.partition("=") for word in command.text.split()):
            if path == "exit":
                code = int(text)
            elif text:
                after[path] = f"{text}\n"
            else:
                after.pop(path)
        view.becomes(after)
        self.also(view.upper)
        await on_output("output", b"ran")
        return Tried(view, began, CommandResult(code))


@dataclass(frozen=True)
class Repository:
    workspace: LocalWorkspace
    sandbox: Viewing

    @property
    def files(self) -> dict[str, str | None]:
        return tree_of(self.workspace.root)

    def reset(self, wanted: Tree) -> None:
        for place in self.workspace.root.iterdir():
            if place.is_dir():
                shutil.rmtree(place)
            elif place.name != ".ignore":
                place.unlink()
        make_tree(self.workspace.root, wanted)

    def scene(
        self,
        *commands: str,
        mode: Mode = "ask",
        rules: str = "",
        attended: bool = True,
        ask_ignored: bool = False,
        at_once: bool = False,
    ) -> Scene:
        """`rules`, one per line: `+effects(x)` allows, `?edit(x)` asks and `-write(x)` denies."""
        kinds = {"+": "auto", "?": "prompt", "-": "deny"}
        parsed = tuple(Rule.parse(text[1:], kinds[text[0]]) for text in rules.splitlines())  # type: ignore[arg-type]  # above
        calls = [do(text, "try") for text in commands]
        turns = [Turn("", tuple(calls))] if at_once else [Turn("", (call,)) for call in calls]
        policy = Policy(mode=mode, rules=parsed, ask_ignored=ask_ignored)
        return scene(
            *turns,
            Turn("done"),
            policy=policy,
            sandbox=self.sandbox,
            attended=attended,
            more=(Try(),),
            tries=True,
        )


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    root = tmp_path / "workspace"
    make_tree(root, BEFORE)
    (root / ".ignore").write_text("build/\n.env\n")
    workspace = LocalWorkspace(root)
    monkeypatch.setattr("tests.agent.doubles.Place", lambda: workspace)
    yield Repository(workspace, Viewing(root, tmp_path / "layers"))
    workspace.close()


async def played(
    s: Scene, *decisions: Decision, meanwhile: Callable[[], object] = lambda: None
) -> tuple[list[KnownEvent], list[str]]:
    """Run it with these answers; returns the events and the texts of the results."""
    left = list(decisions)

    def answer(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            meanwhile()
            s.agent.do(Answer(event.approval_id, left.pop(0)))

    events = await s.run(on_event=answer)
    assert not left
    return events, [text_of(event.content) for event in of(events, ToolResultAdded)]


def cards(events: list[KnownEvent]) -> list[ApprovalRequested]:
    return of(events, ApprovalRequested)


async def test_a_command_that_changes_nothing_is_not_asked_about(repository: Repository) -> None:
    events, results = await played(repository.scene("exit=0"))
    assert cards(events) == [] and of(events, EffectsFound) == []
    assert results == ["ran"]


async def test_what_a_command_changed_is_the_question_and_lands_with_a_yes(
    repository: Repository,
) -> None:
    s = repository.scene("src/a=new src/b= new/c=c exit=3")
    events, results = await played(s, Decision("once"))
    (card,) = cards(events)
    assert card.name == "effects"
    assert card.blocks[0].text == "A new/c\nM src/a\nD src/b"  # type: ignore[union-attr]  # the list
    diffs = {block.path for block in card.blocks if isinstance(block, DiffBlock)}
    assert diffs == {"new/c", "src/a", "src/b"}
    (found,) = of(events, EffectsFound)
    assert card.target == "`src/a=new src/b= new/c=c exit=3` changed 3 files +2 −4"
    assert list(map(str, found.changes)) == ["A new/c", "M src/a", "D src/b"]
    assert [(each.added, each.removed) for each in found.changes] == [(1, 0), (1, 3), (0, 1)]
    assert (found.ignored, found.truncated, found.permission) == ({}, False, "prompt")
    assert results == ["ran\n[exit code 3]\n[taken into the workspace: A new/c, M src/a, D src/b]"]
    assert repository.files == {
        ".ignore": "build/\n.env\n",
        "ci/x": "x\n",
        "new/c": "c\n",
        "src/a": "new\n",
    }


async def test_a_no_leaves_no_trace_and_the_model_is_told_what_was_not_taken(
    repository: Repository,
) -> None:
    before = repository.files
    s = repository.scene("src/a=new new/c=c")
    events, results = await played(s, Decision("deny", "use the formatter"))
    assert results == [
        "ran\n[the user said no: use the formatter. Nothing that it changed was taken, the workspace "
        "is as before: A new/c, M src/a]"
    ]
    (result,) = of(events, ToolResultAdded)
    assert (result.executed, result.error.kind) == (True, "denied")
    assert "files_changed" not in result.details
    assert repository.files == before


async def test_hunks_are_taken_one_by_one_over_all_files(repository: Repository) -> None:
    (repository.workspace.root / "src/a").write_text("".join(f"{n}\n" for n in range(40)))
    text = "".join(f"{n if n not in (0, 39) else 'new'}\n" for n in range(40))
    s = repository.scene("src/b=other")
    repository.sandbox.during = lambda: None
    original = repository.sandbox.try_out

    async def both(command: Command, on_output: OnOutput) -> Tried:
        tried = await original(command, on_output)
        (tried.view.upper / "src/a").write_text(text)
        return tried

    repository.sandbox.try_out = both  # type: ignore[method-assign]  # for this command
    events, results = await played(s, Decision("once", hunks=(True, False, False)))
    assert cards(events)[0].by_hunk
    assert (
        repository.files["src/a"]
        == text.replace("new\n", "new\n", 1).removesuffix("new\n") + "39\n"
    )
    assert repository.files["src/b"] == "old\n"
    assert "taken into the workspace: M src/a" in results[0]
    assert "not taken, as the user left it out: M src/b" in results[0]


@for_each(
    ("mode", "rules", "command", "becomes"),
    [
        ("ask", "", "src/a=new", "asked"),
        ("ask", "+effects(src/**)", "src/a=new", "taken"),
        ("ask", "+effects(src/**)", "src/a=new ci/x=y", "asked"),
        ("ask", "+effects(src/**)\n?edit(src/a)", "src/a=new", "asked"),
        ("ask", "+edit(src/**)", "src/a=new", "asked"),
        ("ask", "-edit(src/a)", "src/a=new", "denied"),
        ("ask", "-edit(src/a)", "src/a=", "denied"),
        ("ask", "-write(src/**)\n+effects(src/**)", "src/a=new", "denied"),
        ("ask", "-effects(ci/**)", "src/a=new ci/x=y", "denied"),
        ("ask", "", "build/out=1", "taken"),
        ("ask", "", "build/out=1 src/a=new", "asked"),
        ("ask", "", "build/old/out=1", "taken"),
        ("ask", "-write(build/**)", "build/old/out=1", "denied"),
        ("ask", "?edit(build/**)", "build/old/out=1", "asked"),
        ("ask", "?edit", "build/old/out=1", "taken"),
        ("ask", "-effects", "build/old/out=1", "denied"),
        ("ask", "-edit", "src/a=new", "denied"),
        ("ask", "+try(*)", "src/a=new", "in place"),
        ("accept-edits", "", "src/a=new", "taken"),
        ("accept-edits", "", ".env=KEY", "asked"),
        ("accept-edits", "", ".github/workflows/x.yml=y", "asked"),
        ("accept-edits", "?write(src/**)", "src/a=new", "asked"),
        ("accept-edits", "-write(src/b)", "src/a=new src/b=new", "denied"),
        ("plan", "", "src/a=new", "planned"),
        ("plan", "+effects(src/**)", "src/a=new", "planned"),
        ("plan", "", "build/out=1", "planned"),
        ("auto", "", "src/a=new", "in place"),
        ("auto", "-write(src/**)", "src/a=new", "in place"),
    ],
)
async def test_rules_and_the_mode_decide_about_where_it_writes(
    repository: Repository, mode: Mode, rules: str, command: str, becomes: str
) -> None:
    repository.reset({**BEFORE, "build/old/object": "0\n"})
    before = repository.files
    s = repository.scene(command, mode=mode, rules=rules)
    events, results = await played(s, *[Decision("once")] * (becomes == "asked"))
    found = of(events, EffectsFound)
    if becomes == "in place":
        assert (cards(events), found) == ([], [])
        return
    permissions = {"asked": "prompt", "taken": "auto", "denied": "deny", "planned": "deny"}
    assert [each.permission for each in found] == [permissions[becomes]]
    assert len(cards(events)) == (becomes == "asked")
    if becomes in ("asked", "taken"):
        for word in command.split():
            path, _, text = word.partition("=")
            assert repository.files[path] == f"{text}\n"
    else:
        assert repository.files == before
        (result,) = of(events, ToolResultAdded)
        assert (None if result.error is None else result.error.kind) == (
            "denied" if becomes == "denied" else None
        )
        assert (found[0].rule in results[0]) if becomes == "denied" else ("plan mode" in results[0])


async def test_without_a_user_it_is_thrown_away_and_the_call_is_denied_with_what_it_would_change(
    repository: Repository,
) -> None:
    before = repository.files
    s = repository.scene("src/a=new", attended=False)
    answer = Decision("deny", "there is nobody to ask", source="auto")
    events, results = await played(s, answer)
    (result,) = of(events, ToolResultAdded)
    assert (result.executed, result.error.kind) == (True, "denied")
    assert "ran" in results[0] and "M src/a" in results[0]
    assert repository.files == before


async def test_the_plan_may_quote_what_a_command_would_change(repository: Repository) -> None:
    _, results = await played(repository.scene("src/a=new build/out=1", mode="plan"))
    assert results[0].endswith("the workspace is as before: M src/a, build/ (1 ignored)]")


async def test_a_command_that_changed_nothing_says_so_in_its_details(
    repository: Repository,
) -> None:
    commands = ("exit=0", "src/a=new", "build/x=1 build/y=1")
    events, _ = await played(repository.scene(*commands), Decision("once"))
    changed = [result.details["files_changed"] for result in of(events, ToolResultAdded)]
    assert changed == [0, 1, 2]


async def test_the_time_of_a_call_begins_once_its_view_is_made(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    async def made() -> None:
        happened.append("made")

    monkeypatch.setattr(repository.sandbox, "prepare_trials", made)
    s = repository.scene("exit=0")
    await s.run(
        on_event=lambda event: happened.append("began") if isinstance(event, ToolStarted) else None
    )
    assert happened == ["made", "began"]


async def test_what_is_written_below_a_folder_that_is_ignored_needs_no_question(
    repository: Repository,
) -> None:
    make_tree(repository.workspace.root, {"build/deep/out": "old\n"})
    events, _ = await played(repository.scene("build/deep/out=new"))
    assert not cards(events)
    assert repository.files["build/deep/out"] == "new\n"


async def test_ignored_files_are_taken_and_listed_folded(repository: Repository) -> None:
    s = repository.scene("build/x=1 build/y/z=1 src/a=new")
    events, results = await played(s, Decision("once"))
    (found,) = of(events, EffectsFound)
    assert found.ignored == {"build/": 2}
    assert cards(events)[0].blocks[0].text == "M src/a\nbuild/ (2 ignored)"  # type: ignore[union-attr]  # the list
    assert "[taken into the workspace: M src/a, build/ (2 ignored)]" in results[0]


async def test_ignored_files_are_asked_about_if_the_settings_say_so(repository: Repository) -> None:
    s = repository.scene("build/x=1", ask_ignored=True)
    events, _ = await played(s, Decision("once"))
    assert list(map(str, of(events, EffectsFound)[0].changes)) == ["A build/x"]
    assert repository.files["build/x"] == "1\n"


async def test_every_command_of_an_answer_has_a_card_of_its_own(repository: Repository) -> None:
    s = repository.scene("src/a=new", "src/b=new", at_once=True)
    events, _ = await played(s, Decision("once"), Decision("deny"))
    assert [card.target.split("`")[1] for card in cards(events)] == ["src/a=new", "src/b=new"]
    assert (repository.files["src/a"], repository.files["src/b"]) == ("new\n", BEFORE["src/b"])


async def test_leaving_every_hunk_out_is_a_no(repository: Repository) -> None:
    before = repository.files
    no = Decision("once", hunks=(False, False))
    events, results = await played(repository.scene("src/a=new src/b=new"), no)
    assert repository.files == before
    assert "the user said no: none of it was taken" in results[0]
    error = of(events, ToolResultAdded)[0].error
    assert error is not None and error.kind == "denied"


async def test_new_folders_are_counted_as_folders(repository: Repository) -> None:
    repository.sandbox.also = lambda upper: (upper / "made/inside").mkdir(parents=True)
    events, _ = await played(repository.scene("exit=0"), Decision("once"))
    assert cards(events)[0].target == "`exit=0` changed 1 folder"


async def test_what_is_no_text_is_shown_in_words_and_taken_whole_or_left_out(
    repository: Repository,
) -> None:
    root = repository.workspace.root
    (root / "tool").write_text("x\n")
    (root / "tool").chmod(0o644)

    def also(upper: Path) -> None:
        (upper / "src").mkdir(exist_ok=True)
        (upper / "src/picture").write_bytes(b"\0\1")
        (upper / "src/latest").symlink_to("a")
        (upper / "src/moved").write_text("x\n")
        (upper / "tool").write_text("x\n")
        (upper / "tool").chmod(0o755)

    repository.sandbox.also = also
    s = repository.scene("src/a=new ci/x=")
    # src/a, the link, the renamed file, the picture, the mode
    answers = (True, True, False, True, False)
    events, results = await played(s, Decision("once", hunks=answers))
    (card,) = cards(events)
    assert card.by_hunk
    assert card.blocks[0].text.splitlines() == [  # type: ignore[union-attr]  # the list
        "M src/a",
        "A src/latest (link)",
        "R ci/x -> src/moved",
        "A src/picture",
        "M tool (now executable)",
    ]
    diffs = [(each.before, each.after) for each in card.blocks if isinstance(each, DiffBlock)]
    assert diffs[1:] == [
        ("", "-> a\n"),
        ("ci/x\n", "src/moved\n"),
        ("", "is a file of 2 bytes, mode 644\n"),
        ("was a file of 2 bytes, mode 644\n", "is a file of 2 bytes, mode 755\n"),
    ]
    assert repository.files["src/latest"] == "-> a"
    assert (root / "src/picture").read_bytes() == b"\0\1"
    assert (repository.files["ci/x"], "src/moved" in repository.files) == ("x\n", False)
    assert (root / "tool").stat().st_mode & 0o777 == 0o644
    assert "not taken, as the user left it out: R ci/x -> src/moved, M tool" in results[0]


async def test_answers_that_do_not_fit_take_nothing(repository: Repository) -> None:
    before = repository.files
    s = repository.scene("src/a=new src/b=new")
    _, results = await played(s, Decision("once", hunks=(True, True, True)))
    said = "nothing that it changed was taken: the answers do not fit what it changed"
    assert results == [f"ran\n[{said}]"]
    assert repository.files == before


@for_each(
    ("command", "proposal"),
    [
        ("src/deep/a=1 src/deep/b=1", "effects(src/deep/**)"),
        ("src/deep/a=1 src/b=1", "effects(src/**)"),
        ("src/a.py=1 ci/b.py=1 c.py=1", "effects(**/*.py)"),
        ("setup.cfg=1", "effects(setup.cfg)"),
        ("src/a=1 ci/x=1", ""),
        ("src/*/a=1", ""),
        ("src/.env=1", ""),
    ],
)
async def test_a_rule_is_proposed_for_where_it_wrote(
    repository: Repository, command: str, proposal: str
) -> None:
    events, _ = await played(repository.scene(command), Decision("deny"))
    assert cards(events)[0].proposal == proposal


@for_each(("rules", "asked"), [("", True), ("-write(many/7)", False)])
async def test_more_files_than_rules_are_compared_with_are_asked_about_or_denied(
    repository: Repository, rules: str, *, asked: bool
) -> None:
    repository.reset(BEFORE)

    def also(upper: Path) -> None:
        (upper / "many").mkdir()
        for number in range(2_001):
            (upper / f"many/{number}").touch()

    repository.sandbox.also = also
    s = repository.scene("exit=0", rules=f"+effects(many/**)\n{rules}".strip())
    events, _ = await played(s, *[Decision("once")] * asked)
    (found,) = of(events, EffectsFound)
    assert (len(found.changes), found.truncated) == (40, True)
    assert (repository.workspace.root / "many/7").exists() == asked
    if asked:
        (card,) = cards(events)
        assert "2,001 files" in card.reason and "and 1,961 more" in card.blocks[0].text  # type: ignore[union-attr]  # the list
        assert (card.by_hunk, card.proposal) == (False, "")


async def test_more_than_can_be_looked_through_is_thrown_away_and_said(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repository.files
    monkeypatch.setattr("codeagent.changes.layers.MOST_EFFECTS", 1)
    events, results = await played(repository.scene("src/a=new src/b=new"))
    assert (cards(events), repository.files) == ([], before)
    assert "nothing that it changed was taken: it changed more than 1 files" in results[0]


async def test_what_landed_halfway_is_told_as_such(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def land(*_: object) -> None:
        raise PartlyChanged("src/a is full; and it could not be taken back: disk full")

    monkeypatch.setattr(Tried, "land", land)
    _, results = await played(repository.scene("src/a=new"), Decision("once"))
    assert "[src/a is full; and it could not be taken back: disk full]" in results[0]
    assert "nothing that it changed" not in results[0]


async def test_a_rule_for_its_like_holds_for_the_next_command(repository: Repository) -> None:
    s = repository.scene("src/a=new", "src/b=new")
    events, _ = await played(s, Decision("rule", rule="effects(src/**)"))
    assert [card.proposal for card in cards(events)] == ["effects(src/**)"]
    assert repository.files["src/b"] == "new\n"


async def test_a_rule_that_does_not_allow_all_of_it_is_asked_about_again(
    repository: Repository,
) -> None:
    s = repository.scene("src/a=new ci/x=y")
    rule = Decision("rule", rule="effects(src/**)")
    events, _ = await played(s, rule, Decision("deny"))
    assert "does not allow all of this" in cards(events)[1].reason
    assert repository.files["src/a"] == BEFORE["src/a"]


async def test_what_changed_since_the_card_is_shown_again(repository: Repository) -> None:
    theirs = iter(["theirs\n"])

    def change() -> None:
        for text in theirs:
            (repository.workspace.root / "src/a").write_text(text)

    s = repository.scene("src/a=new src/b=new")
    events, results = await played(s, Decision("once"), Decision("once"), meanwhile=change)
    second = cards(events)[1]
    assert "changed meanwhile" in second.reason
    assert repository.files["src/a"] == "theirs\n" and repository.files["src/b"] == "new\n"
    assert "changed by somebody else while the command ran: src/a" in results[0]


async def test_what_somebody_else_changed_while_it_ran_is_left_to_them(
    repository: Repository,
) -> None:
    root = repository.workspace.root
    repository.sandbox.during = lambda: (root / "src/a").write_text("theirs\n")
    events, results = await played(repository.scene("src/a=new src/b=new"), Decision("once"))
    assert of(events, EffectsFound)[0].left == ("src/a",)
    assert repository.files["src/a"] == "theirs\n" and repository.files["src/b"] == "new\n"
    assert "changed by somebody else while the command ran: src/a" in results[0]


async def test_what_is_protected_is_never_taken(repository: Repository) -> None:
    s = repository.scene("inner/.git/config=x src/a=new")
    _, results = await played(s, Decision("once"))
    assert "inner/.git/config" not in repository.files
    assert "never taken" in results[0]


@pytest.mark.parametrize("read_only", ["", "no layers here"])
async def test_stopping_while_it_is_asked_about_throws_it_away(
    repository: Repository, read_only: str
) -> None:
    before = repository.files
    repository.sandbox.tried_read_only = read_only
    s = repository.scene("src/a=new exit=1")

    def stop(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            s.agent.do(Stop())

    events = await s.run(on_event=stop)
    assert (repository.files, repository.sandbox.in_place) == (before, [])
    assert of(events, ToolResultAdded)[0].error.kind == "cancelled"


async def test_an_answer_that_no_effect_can_have_is_asked_about_again(
    repository: Repository,
) -> None:
    before = repository.files
    edit = Decision("edit", arguments="{}")
    kept = Decision("rule", rule="effects(src/**)", keep=True)
    s = repository.scene("src/a=new")
    events, _ = await played(s, edit, kept, Decision("deny"))
    assert [card.reason for card in cards(events)[1:]] == [
        "take or throw away the whole of it",
        "rules cannot be saved here; allow it for this session instead",
    ]
    assert repository.files == before


async def test_the_users_own_command_runs_in_place(repository: Repository) -> None:
    s = repository.scene()
    await s.agent.finish(RunShell("src/a=new", shared=False))
    assert of(s.journal.events, EffectsFound) == []
    assert [command.text for command in repository.sandbox.in_place] == ["src/a=new"]


async def test_a_part_of_a_new_folder_and_of_a_removed_one_can_be_left_out(
    repository: Repository,
) -> None:
    s = repository.scene("new/a=1 new/b=2 src/a= src/b=")
    answers = (True, False, False, True)
    _, results = await played(s, Decision("once", hunks=answers))
    assert repository.files == {
        ".ignore": "build/\n.env\n",
        "ci/x": "x\n",
        "new/a": "1\n",
        "src/a": BEFORE["src/a"],
    }
    assert "not taken, as the user left it out: A new/b, D src/a" in results[0]


@for_each(
    ("mode", "rules", "prepared"),
    [
        ("ask", "", True),
        ("accept-edits", "", True),
        ("plan", "", True),
        ("auto", "", False),
        ("ask", "+try(*)", False),
        ("ask", "-try(*)", False),
    ],
)
async def test_trials_are_prepared_for_the_first_command_that_nobody_decided_about(
    repository: Repository, mode: Mode, rules: str, *, prepared: bool
) -> None:
    repository.sandbox.untried = "it is not known yet"
    await played(repository.scene("exit=0", mode=mode, rules=rules))
    assert (repository.sandbox.untried == "") is prepared


@for_each(
    ("code", "decision", "mode", "ran", "said"),
    [
        (0, None, "ask", 1, "read-only for it"),
        (1, Decision("once"), "ask", 2, "exit code 0"),
        (1, Decision("deny", "use make"), "ask", 1, "use make"),
        (1, Decision("deny", "nobody", source="auto"), "ask", 1, "nobody"),
        (1, None, "plan", 1, "read-only for it"),
    ],
)
async def test_in_a_read_only_view_only_what_failed_is_asked_about(
    repository: Repository, code: int, decision: Decision | None, mode: Mode, ran: int, said: str
) -> None:
    sandbox = repository.sandbox
    sandbox.tried_read_only = "no layers here"
    before = len(sandbox.commands)
    sandbox.result = CommandResult(0, notices=("exit code 0",))
    events, results = await played(
        repository.scene(f"exit={code}", mode=mode), *[decision] * (decision is not None)
    )
    assert [card.reason for card in cards(events)] == (
        [] if decision is None else ["it failed in a read-only view: exit code 1"]
    )
    assert len(sandbox.commands) - before == ran
    assert said in results[0]
    denied = decision is not None and decision.answer == "deny"
    error = of(events, ToolResultAdded)[0].error
    assert (error is not None and error.kind == "denied") is denied


async def test_the_mode_of_a_folder_is_shown_beside_what_changed_in_it(
    repository: Repository,
) -> None:
    def also(upper: Path) -> None:
        (upper / "src").mkdir(exist_ok=True)
        (upper / "src").chmod(0o777)

    (repository.workspace.root / "src").chmod(0o755)
    repository.sandbox.also = also
    events, _ = await played(repository.scene("src/a=new"), Decision("once"))
    assert list(map(str, of(events, EffectsFound)[0].changes)) == [
        "M src/ (mode 755 → 777)",
        "M src/a",
    ]


async def test_what_runs_outside_or_holds_secrets_is_listed_first(repository: Repository) -> None:
    def also(upper: Path) -> None:
        (upper / "a").mkdir()
        for number in range(2_001):
            (upper / f"a/{number}").touch()

    repository.sandbox.also = also
    events, _ = await played(repository.scene("package.json={}"), Decision("deny"))
    (card,) = cards(events)
    assert card.blocks[0].text.startswith("A package.json\n")  # type: ignore[union-attr]  # the list


async def test_of_a_file_with_two_names_no_part_is_taken(repository: Repository) -> None:
    def also(upper: Path) -> None:
        (upper / "src").mkdir()
        (upper / "src/a").write_text("x\n2\ny\n")
        (upper / "src/b").hardlink_to(upper / "src/a")

    repository.reset({**BEFORE, "src/b": BEFORE["src/a"]})
    before = repository.files
    repository.sandbox.also = also
    parts = Decision("once", hunks=(True, False, False, True))
    _, results = await played(repository.scene("exit=0"), parts)
    assert "none of it was taken" in results[0]
    assert repository.files == before


async def test_what_landed_is_told_although_its_layer_cannot_be_removed(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def close(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Tried, "close", close)
    _, results = await played(repository.scene("src/a=new"), Decision("once"))
    assert results == ["ran\n[taken into the workspace: M src/a]"]


async def test_what_landed_is_told_although_the_run_is_stopped_while_its_layer_is_removed(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = repository.scene("src/a=new")
    closed: list[bool] = []

    async def close(_: object) -> None:
        s.agent.do(Stop())
        await asyncio.sleep(0.01)
        closed.append(True)

    monkeypatch.setattr(Tried, "close", close)
    _, results = await played(s, Decision("once"))
    assert closed and "[taken into the workspace: M src/a]" in results[0]


async def test_other_arguments_for_what_failed_in_a_read_only_view_run_nothing(
    repository: Repository,
) -> None:
    repository.sandbox.tried_read_only = "no layers here"
    s = repository.scene("exit=1")
    edit = Decision("edit", arguments='{"what": "other"}')
    events, _ = await played(s, edit, Decision("deny"))
    assert [command.text for command in repository.sandbox.in_place] == []
    assert len(cards(events)) == 2


def track(root: Path, path: str) -> None:
    git = root.parent / "git"  # outside: what is in it is not text
    init = ["git", "-C", str(root), "init", "-q", "--separate-git-dir", str(git)]
    subprocess.run(init, check=True)
    subprocess.run(["git", "-C", str(root), "add", "-f", path], check=True)


@for_each(("index", "asked"), [("none", False), ("whole", True), ("broken", True)])
async def test_files_that_git_tracks_are_asked_about_although_a_rule_ignores_them(
    repository: Repository, index: str, *, asked: bool
) -> None:
    root = repository.workspace.root
    make_tree(root, {"build/tracked": "old\n", "build/out": "old\n"})
    if index != "none":
        track(root, "build/tracked")
    if index == "broken":
        (root.parent / "git/index").write_bytes(b"broken")
    s = repository.scene("build/tracked=new")
    events, _ = await played(s, *[Decision("deny")] * asked)
    assert len(cards(events)) == asked
    if index == "whole":
        assert not cards((await played(repository.scene("build/out=new")))[0])
