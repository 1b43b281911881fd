"""What commands leave that programs of the user's would run is asked about, and
undone without a yes."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from codeagent.core.acts import Answer, Stop
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.checkpoints import FileChange
from codeagent.core.display import FilesBlock
from codeagent.core.errors import CheckpointError
from codeagent.core.events import KnownEvent, Notice, RunFinished, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Answer as Word
from codeagent.core.policy import Decision, Policy, Rule
from codeagent.core.sandbox import Command, CommandResult, OnOutput, SandboxSweep
from codeagent.sandbox.guard import set_aside
from codeagent.sandbox.host import HostSandbox
from codeagent.sandbox.layers import Layer
from codeagent.sandbox.mounts import PinnedRoot
from codeagent.tools.builtin.bash import Bash
from codeagent.tools.builtin.write import Write
from codeagent.tools.edit.reads import ReadTracker
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.files import LocalWorkspace
from tests.agent.doubles import Scene, Turn, of, scene
from tests.agent.test_trials import Tried
from tests.agent.watching import until
from tests.fakes import FakeOutputs
from tests.landings import write as land_file
from tests.layers import Layered, tree_of
from tests.workspace.trees import git

Answering = Callable[[ApprovalRequested], Decision]


class Walled(HostSandbox):
    """Runs commands for real, without a container, and moves away what the real one would."""

    def __init__(self, root: Path, state: Path) -> None:
        super().__init__(root, dict(os.environ), state)
        self._state = state
        self.planted: tuple[str, ...] = ()
        self.closed = False
        self.server = False
        """Whether a program is there that outlives every command."""
        self.moment: int | None = None
        """As in `SandboxSweep`: raised for each time that the program does something."""

    async def sweep(self) -> SandboxSweep:
        swept = await super().sweep()
        planted, self.planted = self.planted, ()
        return SandboxSweep(planted, (swept.alive or self.server) and not self.closed, self.moment)

    async def set_aside(self, path: str) -> str:
        root = PinnedRoot(self._root)
        try:
            return str(set_aside(root, path, self._state))
        finally:
            root.close()

    async def close(self) -> None:
        self.closed = True


class Stage:
    """An agent with bash and write in a folder, and answers to what it asks."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root = root
        self.state = state
        self.sandbox = Walled(root, state)
        self.checkpoints = GitCheckpoints(state, root, environment={"HOME": str(state)})
        self.workspace = LocalWorkspace(root)
        self.asked: list[ApprovalRequested] = []
        self.scene: Scene | None = None

    def begin(
        self,
        *calls: tuple[str, str],
        mode: str = "auto",
        rules: tuple[Rule, ...] = (),
        attended: bool = True,
        tries: bool = False,
    ) -> Scene:
        seen, outputs = ReadTracker(self.workspace), FakeOutputs()
        turns = [Turn("", (call,)) for call in calls]
        self.scene = scene(
            *turns,
            Turn("done"),
            policy=Policy(mode, rules),  # type: ignore[arg-type]  # a literal
            sandbox=self.sandbox,
            attended=attended,
            tries=tries,
            checkpoints=self.checkpoints,
            more=(Bash(outputs, seen), Write(self.workspace, seen)),
        )
        return self.scene

    async def run(
        self,
        *calls: tuple[str, str],
        answer: Word | Decision = "deny",
        mode: str = "auto",
        rules: tuple[Rule, ...] = (),
        attended: bool = True,
        tries: bool = False,
    ) -> list[str]:
        """To the end of the run; what the model was told of each call."""
        s = self.begin(*calls, mode=mode, rules=rules, attended=attended, tries=tries)
        decision = answer if isinstance(answer, Decision) else Decision(answer)

        def respond(event: KnownEvent) -> None:
            if isinstance(event, ApprovalRequested):
                self.asked.append(event)
                s.act(Answer(event.approval_id, decision))

        events = await s.run(on_event=respond)
        return [text_of(result.content) for result in of(events, ToolResultAdded)]

    @property
    def warned(self) -> list[str]:
        assert self.scene is not None
        return [
            notice.text
            for notice in of(self.scene.journal.events, Notice)
            if notice.code == "workspace.left"
        ]

    def files(self) -> dict[str, str]:
        found = {}
        for path in sorted(self.root.rglob("*")):
            relative = path.relative_to(self.root)
            if path.is_file() and ".git" not in relative.parts:
                found[str(relative)] = path.read_text()
        return found


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    root = tmp_path / "work"
    root.mkdir()
    stage = Stage(root, tmp_path / "state")
    monkeypatch.setattr("tests.agent.doubles.Place", lambda: stage.workspace)
    yield stage
    stage.checkpoints.close()
    stage.workspace.close()


def bash(command: str, **more: object) -> tuple[str, str]:
    return "bash", json.dumps({"command": command, **more})


def write(path: str, content: str) -> tuple[str, str]:
    return "write", json.dumps({"path": path, "content": content})


PLANT = "echo 'touch P' > .envrc; mkdir .vscode; echo '{}' > .vscode/tasks.json; echo x > a.py"


async def test_what_a_command_changed_and_the_user_does_not_agree_to_is_taken_back(
    stage: Stage,
) -> None:
    (stage.root / ".envrc").write_text("export A=1\n")
    [told] = await stage.run(bash(PLANT))
    assert stage.files() == {".envrc": "export A=1\n", "a.py": "x\n"}
    assert not (stage.root / ".vscode").exists()
    [asked] = stage.asked
    assert (asked.name, asked.target) == ("write", ".envrc, .vscode/tasks.json")
    assert "as soon as a shell enters the folder" in asked.reason
    assert [block.type for block in asked.blocks] == ["diff", "diff"]
    taken_back = "taken back, as it may run outside the sandbox: .envrc, .vscode/tasks.json: the user said no"
    assert told.endswith(f"[{taken_back}]")
    assert stage.warned == [taken_back]


async def test_what_the_user_agrees_to_stays_and_the_next_command_starts_from_there(
    stage: Stage,
) -> None:
    told = await stage.run(bash("echo 1 > .envrc"), bash("echo 2 > a.py"), answer="once")
    assert stage.files() == {".envrc": "1\n", "a.py": "2\n"}
    assert len(stage.asked) == 1
    assert told == ["(no output)", "(no output)"]


async def test_a_file_kept_for_the_session_is_not_asked_about_again(stage: Stage) -> None:
    await stage.run(bash("echo 1 > .envrc"), bash("echo 2 > .envrc"), answer="session")
    assert stage.files() == {".envrc": "2\n"}
    assert len(stage.asked) == 1


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("write(.envrc)", True),
        ("write(.envr?)", False),
        ("write(**)", False),
        ("write", False),
        ("bash(*)", False),
    ],
)
async def test_only_a_rule_that_names_the_file_answers_for_the_user(
    stage: Stage, rule: str, kept: bool
) -> None:
    await stage.run(bash("echo 1 > .envrc"), rules=(Rule.parse(rule, "auto"),))
    assert bool(stage.files()) is kept
    assert bool(stage.asked) is not kept
    assert ("allowed by write(.envrc)" in " ".join(stage.warned)) is kept or not kept


async def test_a_denying_rule_takes_it_back_without_a_question(stage: Stage) -> None:
    await stage.run(
        bash("echo 1 > .envrc"), rules=(Rule.parse("write(.envrc)", "deny"),), answer="once"
    )
    assert stage.files() == {}
    assert not stage.asked


async def test_the_rule_the_user_answers_with_holds_for_this_change_and_the_next(
    stage: Stage,
) -> None:
    answer = Decision("rule", rule="write(.envrc)")
    await stage.run(bash("echo 1 > .envrc"), bash("echo 2 > .envrc"), answer=answer)
    assert stage.files() == {".envrc": "2\n"}
    [asked] = stage.asked
    assert asked.proposal == "write(.envrc)"


async def test_a_change_that_was_there_before_or_was_written_with_consent_is_nothing_a_command_left(
    stage: Stage,
) -> None:
    (stage.root / "Makefile").write_text("all:\n")
    await stage.run(
        write(".envrc", "mine"), bash("echo x > a.py"), rules=(Rule.parse("write(.envrc)", "auto"),)
    )
    assert stage.files() == {"Makefile": "all:\n", ".envrc": "mine", "a.py": "x\n"}
    assert not stage.asked


@pytest.mark.parametrize(
    "attack",
    [
        "ln -s evil .vscode; mkdir evil; echo '{}' > evil/tasks.json",
        "echo '.envrc' > .gitignore; echo 'touch P' > .envrc",
        "mv b.txt Makefile",
        "head -c 25000000 /dev/zero > .envrc",
        "mkfifo .envrc",
        "rm package.json; ln -s /tmp/evil.json package.json",
    ],
)
async def test_no_way_of_making_the_file_goes_unseen(stage: Stage, attack: str) -> None:
    (stage.root / "b.txt").write_text("all:\n\ttouch P\n")
    (stage.root / "package.json").write_text("{}")
    await stage.run(bash(attack))
    assert len(stage.asked) == 1
    left = set(os.listdir(stage.root)) - {"evil", ".gitignore", "b.txt"}  # noqa: PTH208  # names, links not followed
    assert left == {"package.json"}
    assert (stage.root / "package.json").read_text() == "{}"


async def test_what_such_a_file_leads_to_is_asked_about_under_its_own_name_too(
    stage: Stage,
) -> None:
    (stage.root / "shell").mkdir()
    (stage.root / "editor").mkdir()
    (stage.root / "shell/env").write_text("export A=1\n")
    (stage.root / "pkg").mkdir()
    (stage.root / "pkg/.envrc").symlink_to("../shell/env")
    (stage.root / ".vscode").symlink_to("editor")
    await stage.run(
        bash("echo 'touch P' > shell/env; echo '{}' > editor/tasks.json; echo x > a.py")
    )
    [asked] = stage.asked
    assert asked.target == "editor/tasks.json, shell/env"
    assert "is what .vscode leads to" in asked.reason
    assert (stage.root / "pkg/.envrc").read_text() == "export A=1\n"
    assert not (stage.root / ".vscode/tasks.json").exists() and (stage.root / "a.py").exists()


async def test_a_command_that_was_stopped_keeps_nothing_that_nobody_saw(stage: Stage) -> None:
    s = stage.begin(bash("echo 'touch P' > .envrc; echo on; sleep 60"))

    def stop(event: KnownEvent) -> None:
        if event.type == "tool.updated":
            s.act(Stop())

    await s.run(on_event=stop)
    assert stage.files() == {}
    assert "it was not answered" in " ".join(stage.warned)


async def test_in_a_sub_folder_a_repository_is_moved_away_and_its_files_stay(stage: Stage) -> None:
    [told] = await stage.run(bash("git init -q sub; echo x > sub/a.py; git init -q --bare data"))
    assert "sub is a git repository" in stage.asked[0].reason
    assert {path for path in stage.files() if "hooks" not in path and "info" not in path} == {
        "data/config",
        "data/description",
        "sub/a.py",
    }
    assert not (stage.root / "sub/.git").exists()
    assert "fatal: not a git repository" in git_status(stage.root / "data")
    assert "moved away, as it may run code outside the sandbox: data/HEAD to " in told


def units(stage: Stage) -> None:
    for folder in ("tests/units", "tests/other"):
        (stage.root / folder).mkdir(parents=True)
        (stage.root / folder / "conftest.py").write_text("x = 1\n")


@pytest.mark.parametrize("attended", [True, False], ids=["attended", "headless"])
@pytest.mark.parametrize("mode", ["auto", "accept-edits"])
async def test_deleting_a_file_that_runs_by_itself_is_shown_and_not_asked_about_where_edits_are_not(
    stage: Stage, mode: str, attended: bool
) -> None:
    units(stage)
    allowed = (Rule.parse("bash(rm *)", "auto"),)
    [told] = await stage.run(
        bash("rm -rf tests/units"), mode=mode, attended=attended, rules=allowed
    )
    assert stage.files() == {"tests/other/conftest.py": "x = 1\n"}
    assert (told, stage.asked) == ("(no output)", [])
    assert stage.warned == [
        "deleted by a command, and would have run by itself: tests/units/conftest.py"
    ]


async def test_where_edits_are_asked_about_so_are_such_deletions_by_name_and_a_no_brings_them_back(
    stage: Stage,
) -> None:
    units(stage)
    allowed = (Rule.parse("bash(rm *)", "auto"),)
    [told] = await stage.run(bash("rm -rf tests/units tests/other"), mode="ask", rules=allowed)
    [asked] = stage.asked
    assert asked.reason.endswith(
        "tests/other/conftest.py was deleted; tests/units/conftest.py was deleted"
    )
    assert asked.blocks == (
        FilesBlock(
            paths=("tests/other/conftest.py (deleted)", "tests/units/conftest.py (deleted)")
        ),
    )
    assert len(stage.files()) == 2
    assert "[restored: tests/other/conftest.py, tests/units/conftest.py: the user said no]" in told


async def test_a_rule_that_denies_writing_the_file_denies_deleting_it(stage: Stage) -> None:
    units(stage)
    await stage.run(bash("rm -rf tests"), rules=(Rule.parse("write(tests/units/**)", "deny"),))
    assert set(stage.files()) == {"tests/units/conftest.py"}


@pytest.mark.parametrize(
    "path", ["AGENTS.md", ".claude/settings.json", ".npmrc", "web/.yarnrc.yml"]
)
async def test_deleting_what_may_hold_a_program_back_is_asked_about_like_writing_it(
    stage: Stage, path: str
) -> None:
    (stage.root / path).parent.mkdir(exist_ok=True)
    (stage.root / path).write_text("held\n")
    await stage.run(bash(f"rm {path}"))
    assert len(stage.asked) == 1
    assert stage.files() == {path: "held\n"}


async def test_moving_such_a_file_is_asked_about_as_one_change(stage: Stage) -> None:
    units(stage)
    await stage.run(bash("rm -r tests/other; mkdir new; mv tests/units/conftest.py new/"))
    assert [asked.target for asked in stage.asked] == [
        "new/conftest.py, tests/other/conftest.py, tests/units/conftest.py"
    ]
    assert set(stage.files()) == {"tests/other/conftest.py", "tests/units/conftest.py"}


async def test_deleting_a_part_of_a_repository_is_asked_about_and_all_of_it_is_not(
    stage: Stage,
) -> None:
    for name in ("one", "two"):
        git(stage.root, "init", "-q", "--bare", name)
    await stage.run(bash("rm one/config; rm -r two"))
    assert [asked.target for asked in stage.asked] == ["one/config"]
    assert (stage.root / "one/config").exists() and not (stage.root / "two").exists()


async def test_a_repository_the_user_agrees_to_stays(stage: Stage) -> None:
    await stage.run(bash("git init -q sub"), bash("true; touch x"), answer="once")
    assert (stage.root / "sub/.git/HEAD").exists()
    assert len(stage.asked) == 1


async def test_a_changed_configuration_of_a_repository_that_was_there_is_reported(
    stage: Stage,
) -> None:
    git(stage.root, "init", "-q", "sub")
    git(stage.root, "init", "-q", "--bare", "bare")
    [told] = await stage.run(
        bash("git -C sub config core.fsmonitor 'touch P'; echo x > bare/hooks/post-checkout")
    )
    assert "what git runs in sub was changed" in told
    assert stage.asked[0].target == "bare/hooks/post-checkout"
    assert not (stage.root / "bare/hooks/post-checkout").exists()


async def test_what_a_package_manager_installs_is_reported_and_stays(stage: Stage) -> None:
    first, second = await stage.run(
        bash(
            "mkdir -p node_modules/a; echo 1 > node_modules/a/index.js; echo 2 > node_modules/a/b.js"
        ),
        bash("echo 3 > node_modules/a/b.js"),
    )
    assert first.endswith("[node_modules: 2 files changed, which may run on your machine]")
    assert second.endswith("[node_modules: 1 file changed, which may run on your machine]")
    assert not stage.asked
    assert len(stage.files()) == 2


LATER = (
    "mkfifo gate done; "
    "(setsid bash -c 'read _ < gate; echo P > .envrc; echo > done; read _ < gate' &>/dev/null &) ; true"
)
"""A process that is left behind, writes when it is told to, says so, and ends when it is told
to."""


async def tell(stage: Stage) -> None:
    await asyncio.to_thread((stage.root / "gate").write_text, "go\n")


async def test_without_a_user_what_a_process_does_after_its_command_is_undone_at_the_end(
    stage: Stage,
) -> None:
    await stage.run(bash(LATER), attended=False)
    await tell(stage)
    await asyncio.to_thread((stage.root / "done").read_text)
    await closed(stage)
    assert stage.files() == {}
    assert (
        "taken back, as it may run outside the sandbox: .envrc: nobody was there to ask"
        in stage.warned
    )
    await tell(stage)


async def test_with_a_user_it_is_reported_for_it_may_be_their_own_work(stage: Stage) -> None:
    await stage.run(bash(LATER))
    (stage.root / "Makefile").write_text("mine:\n")
    await closed(stage)
    assert stage.files() == {"Makefile": "mine:\n"}
    assert (
        "changed while processes of the agent were running; look before you use it: Makefile"
        in stage.warned
    )
    await tell(stage)
    await asyncio.to_thread((stage.root / "done").read_text)
    await tell(stage)


async def test_what_a_rule_allows_is_not_reported_as_something_to_look_at(stage: Stage) -> None:
    await stage.run(bash(LATER), rules=(Rule.parse("write(Makefile)", "auto"),))
    (stage.root / "Makefile").write_text("mine:\n")
    await closed(stage)
    assert set(stage.warned) == {"changed by a command, allowed by write(Makefile): Makefile"}
    await tell(stage)
    await asyncio.to_thread((stage.root / "done").read_text)
    await tell(stage)


async def test_a_server_that_is_always_there_does_not_hide_what_commands_leave(
    stage: Stage,
) -> None:
    stage.sandbox.server = True
    await stage.run(bash("echo P > .envrc"))
    assert [asked.target for asked in stage.asked] == [".envrc"]
    assert stage.files() == {}
    await closed(stage)


async def test_what_the_user_changes_while_a_server_sleeps_is_not_taken_for_its_work(
    stage: Stage,
) -> None:
    stage.sandbox.server, stage.sandbox.moment = True, 1
    await stage.run(bash("touch a"), attended=False)
    (stage.root / "Makefile").write_text("mine:\n")
    assert stage.scene is not None
    stage.scene.model.turns += [Turn("", (bash("touch b"),)), Turn("done")]
    await stage.scene.run()
    await closed(stage)
    assert (stage.files(), stage.warned) == ({"Makefile": "mine:\n", "a": "", "b": ""}, [])


@pytest.mark.parametrize("moment", [2, None], ids=["it ran", "that is not known"])
async def test_what_a_server_may_have_done_is_undone_if_nobody_is_there(
    stage: Stage, moment: int | None
) -> None:
    stage.sandbox.server, stage.sandbox.moment = True, 1
    await stage.run(bash("touch a"), attended=False)
    (stage.root / "Makefile").write_text("evil:\n")
    stage.sandbox.moment = moment
    await closed(stage)
    assert stage.files() == {"a": ""}


async def test_what_another_codeagent_wrote_itself_meanwhile_is_not_taken_back(
    stage: Stage,
) -> None:
    waits = bash(
        "touch begun; until [ -e .envrc ]; do :; done; mkdir .vscode; echo {} > .vscode/tasks.json"
    )
    other = GitCheckpoints(stage.state, stage.root, environment={})
    workspace = LocalWorkspace(stage.root)
    workspace.recorder = other.landing
    await other.take(commands=False)
    running = asyncio.create_task(stage.run(waits, attended=False))
    await until((stage.root / "begun").exists)
    await asyncio.to_thread(land_file, workspace, ".envrc", b"theirs\n", base=None)
    await running
    await closed(stage)
    assert stage.files() == {".envrc": "theirs\n", "begun": ""}
    other.close()
    workspace.close()


async def closed(stage: Stage) -> None:
    assert stage.scene is not None
    await stage.scene.agent.close()


async def test_what_a_job_did_is_asked_about_with_the_next_command(stage: Stage) -> None:
    job = bash("echo P > .envrc; until [ -e x ]; do :; done", run_in_background=True)
    await stage.run(job, bash("until [ -e .envrc ]; do :; done; touch x"))
    await closed(stage)
    assert stage.files() == {"x": ""}
    assert [asked.target for asked in stage.asked] == [".envrc"]


async def test_what_the_sandbox_moves_away_later_is_told_to_the_user_and_the_model(
    stage: Stage,
) -> None:
    s = stage.begin(bash("true; touch a"), bash("true; touch b"))

    def plant(event: KnownEvent) -> None:
        if isinstance(event, ToolResultAdded) and not stage.warned:
            stage.sandbox.planted = ("a command created .git, which was moved",)

    await s.run(on_event=plant)
    assert stage.warned == ["a command created .git, which was moved"]
    told = [message for request in s.model.requests for message in request.messages]
    assert "a command created .git, which was moved" in str(told)


async def test_what_cannot_be_taken_back_is_said_and_the_rest_is(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = stage.checkpoints.restore

    async def refuse(
        target: str, *, present: str, paths: Collection[str]
    ) -> tuple[FileChange, ...]:
        if ".envrc" in paths:
            raise CheckpointError("the disk is full")
        return await restore(target, present=present, paths=paths)

    monkeypatch.setattr(stage.checkpoints, "restore", refuse)
    [told] = await stage.run(bash(PLANT))
    assert set(stage.files()) == {".envrc", "a.py"}
    assert (
        "taken back, as it may run outside the sandbox: .vscode/tasks.json: the user said no"
        in told
    )
    assert ".envrc could not be taken back (the disk is full): look at it first" in told


async def test_a_store_that_fails_is_said_once_and_the_commands_run(stage: Stage) -> None:
    stage.checkpoints.close()
    (stage.root.parent / "state").write_text("no folder")
    told = await stage.run(bash("echo 1 > a; echo one"), bash("echo 2 > a; echo two"))
    assert told == ["one", "two"]
    assert len([text for text in stage.warned if "were not inspected" in text]) == 1


async def test_a_run_ends_and_fails_even_if_its_last_inspection_breaks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = stage.begin(bash("echo x > a.py"))

    async def broken(token: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(s.agent._context.inspection, "at_rest", broken)
    [finished] = of(await s.run(), RunFinished)
    assert (finished.reason, finished.error) == ("failed", "internal error: RuntimeError: boom")
    assert not s.agent.running


async def test_every_call_has_one_result_even_if_an_inspection_breaks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = stage.begin(bash("echo x > a.py"))
    s.model.turns[0] = Turn(
        "", (bash("echo x > a.py"), write("b.txt", "b"), ("do", '{"what": "nap"}'))
    )

    async def broken(call_id: str, token: object) -> tuple[str, ...]:
        raise RuntimeError("boom")

    monkeypatch.setattr(s.agent._context.inspection, "after", broken)
    await s.run()
    await s.agent.close()
    results = of(s.journal.events, ToolResultAdded)
    assert sorted(result.call_id for result in results) == ["call_1", "call_2", "call_3"]


def git_status(folder: Path) -> str:
    return subprocess.run(
        ["git", "status"], cwd=folder, capture_output=True, text=True, check=False
    ).stderr


async def test_what_was_taken_of_a_command_that_was_tried_out_is_not_taken_back(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def try_out(command: Command, on_output: OnOutput) -> Tried:
        view = Layered.over(stage.root, tmp_path / "view")
        view.becomes({**tree_of(stage.root), ".envrc": "taken\n"})
        return Tried(view, Layer(view.folder).now(), CommandResult(0))

    monkeypatch.setattr(Walled, "untried", "")
    stage.sandbox.server = True  # something that the agent started is running all the time
    stage.sandbox.try_out = try_out  # type: ignore[method-assign, assignment]  # for this command
    rules = (Rule.parse("bash(touch *)", "auto"), Rule.parse("effects(.envrc)", "auto"))
    calls = (bash("touch a"), bash("python3 x"), bash("touch b"))
    await stage.run(*calls, mode="ask", rules=rules, tries=True)
    assert (stage.root / ".envrc").read_text() == "taken\n"
    assert stage.asked == []
