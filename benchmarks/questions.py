"""Counts the questions about commands of recorded conversations under `approval = "text"` and under
`"effects"`.

    python -m benchmarks.questions [--bugfixes] [--list] [FOLDER …]

FOLDER holds one conversation in each `*.json`, in OpenAI's form; its commands are the calls of a
shell tool, or an answer's only code block of bash. Calls of other tools are not played. The commands
really run, each conversation through a session of its own: over a copy of the folder of the same
name without `.json`, or, if there is none, over a stand-in of the files that its own outputs show.
`--bugfixes` plays the bug fixes of `benchmarks.bugfixes`.

A careful user answers every question, and only that one. A user with rules takes the rule for its
like, where the card offers one. Nobody denies anything.
"""

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.bugfixes.__main__ import FIXES, lay_out
from benchmarks.bugfixes.releases import Fix, Trouble
from benchmarks.bugfixes.repair import script_of
from benchmarks.bugfixes.verdict import test_command
from codeagent.app.runtime import open_session
from codeagent.config.checking import checked
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.events import KnownEvent, RunFinished, ToolResultAdded, ToolStarted
from codeagent.core.paths import host_reason, secret_reason
from codeagent.core.policy import ALWAYS_ASKS, EFFECTS, HOSTS, NETWORK, Decision
from codeagent.tools.shell.hosts import hosts_needed
from codeagent.tools.shell.syntax import command_key

Approval = Literal["text", "effects"]
Json = dict[str, Any]
SHELLS = frozenset(
    {
        "bash",
        "shell",
        "terminal",
        "execute_bash",
        "run_bash",
        "run_command",
        "run_shell_command",
        "execute_command",
        "run_terminal_cmd",
        "exec_command",
        "local_shell",
    }
)
_BLOCK = re.compile(r"```(?:bash|sh|mswea_bash_command)\n(.*?)\n```", re.DOTALL)
_CODE = re.compile(r"<returncode>(-?\d+)</returncode>|\[exit code (\d+)\]|[Ee]xit code:? (\d+)")
_OUTPUT = re.compile(r"<output>\n?(.*?)</output>", re.DOTALL)
_ROOT = re.compile(r"\bcd (/[\w./-]+)")
_SHOWN = re.compile(r"^(?:cat|nl -ba) ([\w./-]+)$|^sed -n '?(\d+),\d+p'? ([\w./-]+)$")
_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)
_NOT_FOUND = (126, 127)


@dataclass(frozen=True)
class Recorded:
    """One command of a conversation, and what it printed there."""

    text: str
    output: str
    code: int | None
    """None if the conversation does not say."""
    background: bool = False


@dataclass(frozen=True)
class Conversation:
    """What is played: turns of the scripted model, over a workspace of its own."""

    name: str
    turns: Callable[[Path], Sequence[Json]]
    """Make them for a workspace."""
    lay_out: Callable[[Path], Path]
    """Make the workspace in an empty folder; return it."""
    recorded: tuple[Recorded, ...] = ()


@dataclass
class Played:
    """What happened when a conversation was played, or several."""

    commands: int = 0
    changed: int = 0
    """How many commands changed something in the workspace."""
    otherwise: list[str] = field(default_factory=list)
    """Those that did not end as recorded, or whose program is not there."""
    asked: Counter[str] = field(default_factory=Counter)
    """Questions about commands, by cause."""
    needless: list[str] = field(default_factory=list)
    """Those commands that were asked about and changed nothing."""
    edits: int = 0
    """Questions about other calls, which are the same in both ways."""

    def add(self, other: "Played") -> None:
        self.commands += other.commands
        self.changed += other.changed
        self.otherwise += other.otherwise
        self.asked += other.asked
        self.needless += other.needless
        self.edits += other.edits


def main() -> None:
    parser = argparse.ArgumentParser(description="Count questions about recorded commands.")
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--bugfixes", action="store_true", help="play the bug fixes, too")
    parser.add_argument("--list", action="store_true", help="name the commands that stand out")
    given = parser.parse_args()
    print(
        f"{'':24} {'commands':>8} {'change':>6} {'otherwise':>9} {'asked':>5} {'needless':>8}  causes"
    )
    for folder in given.folders:
        found = [recorded_in(path) for path in sorted(folder.glob("*.json"))]
        held = [each for each in found if each.recorded]
        print(f"{folder.name}: {len(found)} conversations, {len(held)} with commands", flush=True)
        _table(held, given.list)
    if given.bugfixes:
        held = list(_bug_fixes())
        print(f"bug fixes: {len(held)} packages", flush=True)
        _table(held, given.list)


def _table(conversations: Sequence[Conversation], listed: bool) -> None:
    for user in ("careful", "with rules"):
        asked: dict[Approval, int] = {}
        for approval in ("text", "effects"):
            total = Played()
            for each in conversations:
                total.add(_play(each, approval, rules=user == "with rules"))
            asked[approval] = total.asked.total()
            causes = ", ".join(f"{cause} {count}" for cause, count in total.asked.most_common())
            print(
                f"  {user + ', ' + approval:22} {total.commands:>8} {total.changed:>6} "
                f"{len(total.otherwise):>9} {asked[approval]:>5} {len(total.needless):>8}  {causes}"
                f"; about other calls {total.edits}",
                flush=True,
            )
            if listed:
                _list("otherwise", total.otherwise)
                _list("needless", total.needless)
        if asked["text"]:
            print(f"  {user}: {asked['effects'] / asked['text']:.2f} of the questions", flush=True)


def _list(what: str, commands: Sequence[str]) -> None:
    for command in commands:
        print(f"      {what}: {command.splitlines()[0][:120]}")


def recorded_in(path: Path) -> Conversation:
    """Read a conversation and its commands."""
    read = json.loads(path.read_text())
    messages = read["messages"] if isinstance(read, dict) else read
    commands = tuple(_commands(messages))
    repository = path.with_suffix("")
    roots = Counter(match for each in commands for match in _ROOT.findall(each.text))
    root = roots.most_common(1)[0][0] if roots else None

    def make(folder: Path) -> Path:
        made = folder / "workspace"
        if repository.is_dir():
            shutil.copytree(repository, made, symlinks=True)
        else:
            made.mkdir()
            _stand_in(made, commands, root)
        _commit(made)
        return made

    def turns(made: Path) -> list[Json]:
        return [*(_turn(_moved(each, root, made)) for each in commands), {"text": "done"}]

    return Conversation(path.stem, turns, make, commands)


def _commands(messages: Sequence[Json]) -> Iterator[Recorded]:
    answers = {each["tool_call_id"]: _text(each) for each in messages if each.get("role") == "tool"}
    for number, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        for call in message.get("tool_calls") or ():
            if call["function"]["name"].lower() in SHELLS:
                arguments = json.loads(call["function"]["arguments"])
                background = bool(arguments.get("run_in_background"))
                if line := _line(arguments):
                    yield _recorded(line, answers.get(call["id"], ""), background)
        blocks = _BLOCK.findall(_text(message))
        if not message.get("tool_calls") and len(blocks) == 1:
            after = messages[number + 1] if number + 1 < len(messages) else {}
            yield _recorded(blocks[0], _text(after))


def _text(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _line(arguments: Json) -> str:
    given: str | list[str] = arguments.get("command") or arguments.get("cmd") or ""
    if isinstance(given, str):
        return given
    return given[-1] if given[:1] == ["bash"] else shlex.join(given)


def _recorded(text: str, said: str, background: bool = False) -> Recorded:
    code = _CODE.search(said)
    output = _OUTPUT.search(said)
    exit_code = None if code is None else int(next(filter(None, code.groups())))
    return Recorded(text, output[1] if output else said, exit_code, background)


def _moved(recorded: Recorded, root: str | None, made: Path) -> Recorded:
    """The workspace takes the place of the folder in which the commands were run."""
    if root is None:
        return recorded
    text = re.sub(rf"{re.escape(root)}(?![\w.-])", lambda _: str(made), recorded.text)
    return replace(recorded, text=text)


def _turn(recorded: Recorded) -> Json:
    """The call as a model would make it here: with network access if it is known to need that."""
    arguments: Json = {"command": recorded.text}
    if hosts_needed(command_key(recorded.text).parts):
        arguments["network"] = True
    if recorded.background:
        arguments["run_in_background"] = True
    return {"calls": [["bash", arguments]]}


def _stand_in(made: Path, commands: Sequence[Recorded], root: str | None) -> None:
    """Write the files that outputs show, each as it was first seen."""
    for each in commands:
        last = re.split(r"&&|;", each.text)[-1].strip()
        found = _SHOWN.match(last)
        if found is None or each.code or not each.output.strip():
            continue
        whole, first, part = found.groups()
        place = made / (whole or part).removeprefix(f"{root}/")
        if place.exists() or not place.resolve().is_relative_to(made):
            continue
        shown = _NUMBER.sub("", each.output) if last.startswith("nl") else each.output
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n" * (int(first or 1) - 1) + shown)


def _commit(root: Path) -> None:
    git = ["git", "-C", str(root), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    if not (root / ".git").exists():
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "before"], check=True)


def _bug_fixes() -> Iterator[Conversation]:
    """The model's turns are made once; every play has its own repository."""
    for path in sorted(FIXES.glob("*.json")):
        fix = Fix.model_validate_json(path.read_bytes())
        with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
            try:
                case = lay_out(fix, Path(folder))
            except Trouble as error:
                print(f"{fix.package} was not played: {error}", flush=True)
                continue
            turns = script_of(fix, case.repairs, test_command(fix))
        yield Conversation(fix.package, partial(_same, turns), partial(_root_of_fix, fix))


def _same(turns: Sequence[Json], root: Path) -> Sequence[Json]:
    return turns


def _root_of_fix(fix: Fix, folder: Path) -> Path:
    return lay_out(fix, folder).root


def _play(conversation: Conversation, approval: Approval, *, rules: bool) -> Played:
    with tempfile.TemporaryDirectory(prefix="codeagent-bench-") as folder:
        root = conversation.lay_out(Path(folder))
        script = Path(folder, "script.json")
        script.write_text(json.dumps(conversation.turns(root)))
        settings = checked(
            Settings,
            {"model": f"script:{script}", "mode": "ask", "sandbox": {"approval": approval}},
        )
        local = LocalEnvironment(root, Path(folder, "state"), os.environ)
        return asyncio.run(_Player(conversation, root, rules=rules).play(settings, local))


class _Player:
    """Plays one conversation and answers its questions."""

    def __init__(self, conversation: Conversation, root: Path, *, rules: bool) -> None:
        self._conversation = conversation
        self._root = root
        self._rules = rules
        self._played = Played()
        self._tree: object = None
        self._asked: dict[str, list[str]] = {}
        """The causes of the questions about each command, by call."""
        self._offered: set[str] = set()
        self._command: dict[str, str] = {}

    async def play(self, settings: Settings, local: LocalEnvironment) -> Played:
        session = await open_session(settings, local, attended=True, needs_sandbox=True)

        def observe(event: KnownEvent) -> None:
            match event:
                case ApprovalRequested():
                    session.agent.do(Answer(event.approval_id, self._answered(event)))
                case ToolResultAdded(name="bash"):
                    self._ended(event)
                case ToolResultAdded():
                    self._tree = _tree(self._root)
                case ToolStarted():
                    self._command[event.call_id] = str(event.arguments.get("command", ""))
                case _:
                    pass

        session.agent.observe(observe)
        self._tree = _tree(self._root)
        try:
            async for event in session.agent.run("go"):
                if isinstance(event, RunFinished):
                    assert event.reason == "done", event
        finally:
            await session.close()
        return self._played

    def _answered(self, event: ApprovalRequested) -> Decision:
        if event.name not in ("bash", EFFECTS, HOSTS):
            self._played.edits += 1
            return Decision("once")
        self._asked.setdefault(event.call_id, []).append(_cause(event))
        if self._rules and event.proposal and event.proposal not in self._offered:
            self._offered.add(event.proposal)
            return Decision("rule", rule=event.proposal)
        return Decision("once")

    def _ended(self, event: ToolResultAdded) -> None:
        played, number = self._played, self._played.commands
        before, self._tree = self._tree, _tree(self._root)
        changed = before != self._tree
        played.commands += 1
        played.changed += changed
        causes = self._asked.pop(event.call_id, [])
        played.asked.update(causes)
        command = f"{self._conversation.name}: {self._command.get(event.call_id, '')}"
        if causes and not changed:
            played.needless.append(f"({', '.join(causes)}) {command}")
        code = event.details.get("exit_code")
        recorded = self._conversation.recorded
        wanted = recorded[number].code if number < len(recorded) else None
        if not event.executed or code in _NOT_FOUND or (wanted is not None and wanted != code):
            played.otherwise.append(f"{code} and not {wanted}: {command}")


def _cause(event: ApprovalRequested) -> str:
    if event.name == EFFECTS:
        first = getattr(event.blocks[0], "text", "")
        paths = [line[2:] for line in first.splitlines() if line[1:2] == " "]
        sensitive = any(secret_reason(path) or host_reason(path) for path in paths)
        return "protected" if sensitive else "effects"
    if event.name == HOSTS or event.target.startswith(NETWORK):
        return "network"
    if json.loads(event.arguments or "{}").get("run_in_background"):
        return "job"
    return "text" if event.reason == ALWAYS_ASKS else "protected"


def _tree(root: Path) -> dict[str, tuple[int, ...]]:
    """What is in the workspace, but for the repository's own files and what only Python's caches
    hold."""
    found = {}
    for folder, folders, files in os.walk(root):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            status = os.lstat(os.path.join(folder, name))  # noqa: PTH118  # many of them
            own = (status.st_ino, status.st_mtime_ns, status.st_size)
            found[f"{folder}/{name}"] = (status.st_mode, *(own if name in files else ()))
    return found


if __name__ == "__main__":
    main()
