"""A command that nobody decided about is tried out, and what it would change is decided about."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from codeagent.changes.layer_landing import plan
from codeagent.core.acts import Answer, Stop
from codeagent.core.approval_events import ApprovalRequested, EffectsFound
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.display import DiffBlock
from codeagent.core.effects import Effect
from codeagent.core.events import KnownEvent, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Decision, Mode, Policy, Rule
from codeagent.core.sandbox import Command, CommandResult, OnOutput
from codeagent.core.tool import Tool, ToolContext, ToolResult
from codeagent.sandbox.layers import Layer
from codeagent.tools.shell.run import run_command
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Do, Scene, Turn, do, of, scene
from tests.fakes import FakeOutputs, FakeSandbox
from tests.layers import Layered, make_tree, tree_of
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

    async def replace(self, change: Change[Node]) -> None:
        self.view.replace(change)

    async def land(self, effects: Sequence[Effect], left: Collection[str] = ()) -> None:
        with self.view.landing() as landing:
            landing.land(plan(effects, left))

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
        await on_output("output", b"ran")
        return Tried(view, began, CommandResult(code))


@dataclass(frozen=True)
class Repository:
    workspace: LocalWorkspace
    sandbox: Viewing

    @property
    def files(self) -> dict[str, str | None]:
        return tree_of(self.workspace.root)

    def scene(
        self, *commands: str, mode: Mode = "ask", rules: str = "", attended: bool = True
    ) -> Scene:
        """`rules`, one per line: `+effects(x)` allows, `?edit(x)` asks and `-write(x)` denies."""
        kinds = {"+": "auto", "?": "prompt", "-": "deny"}
        parsed = tuple(Rule.parse(text[1:], kinds[text[0]]) for text in rules.splitlines())  # type: ignore[arg-type]  # above
        turns = *(Turn("", (do(text, "try"),)) for text in commands), Turn("done")
        policy = Policy(mode=mode, rules=parsed)
        return scene(
            *turns,
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
    assert found.changed == ("A new/c", "M src/a", "D src/b")
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
    ("mode", "rules", "command", "asked"),
    [
        ("ask", "", "src/a=new", True),
        ("ask", "+effects(src/**)", "src/a=new", False),
        ("ask", "+effects(src/**)", "src/a=new ci/x=y", True),
        ("ask", "+effects(src/**)\n?edit(src/a)", "src/a=new", True),
        ("ask", "+try(*)", "src/a=new", False),
        ("accept-edits", "", "src/a=new", False),
        ("accept-edits", "", ".env=KEY", True),
        ("accept-edits", "", ".github/workflows/x.yml=y", True),
        ("ask", "", "build/out=1", False),
        ("ask", "", "build/out=1 src/a=new", True),
    ],
)
async def test_rules_and_the_mode_decide_about_where_it_writes(
    repository: Repository, mode: Mode, rules: str, command: str, *, asked: bool
) -> None:
    make_tree(repository.workspace.root, BEFORE)
    if rules == "+try(*)":  # then it runs in place, and is not tried out
        events, _ = await played(repository.scene(command, rules=rules))
        assert not cards(events) and not of(events, EffectsFound)
        return
    s = repository.scene(command, mode=mode, rules=rules)
    events, _ = await played(s, *[Decision("once")] * asked)
    assert len(cards(events)) == asked
    for word in command.split():
        path, _, text = word.partition("=")
        assert repository.files[path] == f"{text}\n"


async def test_what_is_written_below_a_folder_that_is_ignored_needs_no_question(
    repository: Repository,
) -> None:
    make_tree(repository.workspace.root, {"build/deep/out": "old\n"})
    events, _ = await played(repository.scene("build/deep/out=new"))
    assert not cards(events)
    assert repository.files["build/deep/out"] == "new\n"


async def test_a_denied_path_denies_all_of_it(repository: Repository) -> None:
    before = repository.files
    s = repository.scene("src/a=new ci/x=y", rules="-write(ci/**)")
    events, results = await played(s)
    assert not cards(events)
    assert repository.files == before
    assert of(events, ToolResultAdded)[0].error.kind == "denied"
    assert "denied by the rule write(ci/**)" in results[0]


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


async def test_in_plan_mode_it_is_tried_out_and_thrown_away(repository: Repository) -> None:
    before = repository.files
    events, results = await played(repository.scene("src/a=new", mode="plan"))
    assert not cards(events)
    assert "plan mode" in results[0] and "M src/a" in results[0]
    assert repository.files == before


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


async def test_stopping_while_it_is_asked_about_throws_it_away(repository: Repository) -> None:
    before = repository.files
    s = repository.scene("src/a=new")

    def stop(event: KnownEvent) -> None:
        if isinstance(event, ApprovalRequested):
            s.agent.do(Stop())

    events = await s.run(on_event=stop)
    assert repository.files == before
    assert of(events, ToolResultAdded)[0].error.kind == "cancelled"
