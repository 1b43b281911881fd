"""`codeagent replay --against`: the same prompts, another model, a copy of the files as the session
found them."""

import argparse
import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Coroutine, Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.changes.diff import count
from codeagent.commands.arguments import print_json, say, settings_of
from codeagent.commands.demo import commit_all
from codeagent.config.local_environment import LocalEnvironment, state_dir
from codeagent.config.settings import Settings
from codeagent.core.acts import Interrupt, Steer
from codeagent.core.audit import SessionStats, gather_stats
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CheckpointError, CodeagentError, ConfigError
from codeagent.core.events import BatchPlanned, KnownEvent
from codeagent.core.json_types import MAIN
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Session
from codeagent.core.sanitize import one_line, visible
from codeagent.extensions.replay.comparison import Divergence, Outline, divergence, outline
from codeagent.headless import Headless, Streams
from codeagent.session.store import SessionStore
from codeagent.workspace.checkpoints import GitCheckpoints
from codeagent.workspace.snapshots.store import SnapshotStore

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_COMMANDS = ("bash", "python")
"""Tools that would run on this machine if there were no sandbox."""
_LONGEST = 300
"""Characters shown of a call or a text."""
_MOST_NAMED = 20
"""How many changed files are listed."""
_GOES_ON = (0, 4)
"""The exit codes of a prompt after which the next one is sent: it was done, or something was
denied."""


def compare(
    args: argparse.Namespace, app: "App", store: SessionStore, session_id: str
) -> Coroutine[Any, Any, int]:
    """Return the work that runs the prompts of a session again, reports, and ends with the exit
    code.

    Raises SessionError, ConfigError, CodeagentError.
    """
    recorded = outline(store.read(session_id).events)
    if not recorded.exchanges:
        raise ConfigError(f"session {session_id} has no prompt; nothing was run")
    if not recorded.snapshot:
        raise CodeagentError(
            f"the files that session {session_id} began with are not known; nothing was run"
        )
    return _compare(args, app, store, session_id, recorded)


async def _compare(
    args: argparse.Namespace, app: "App", store: SessionStore, session_id: str, recorded: Outline
) -> int:
    copy = await asyncio.to_thread(_empty_folder)
    changed: tuple[str, ...] = ()
    try:
        snapshots = await _copied(recorded, session_id, copy)
        try:
            begun = (await snapshots.take()).id
            new_id, sent, code = await _run(args, app, recorded, copy)
            changed = tuple(change.path for change in await snapshots.changes(begun, None))
        finally:
            snapshots.close()
        new = outline(store.read(new_id).events)
        found = divergence(
            recorded.exchanges, new.exchanges, partial(_moved, str(copy), recorded.workspace)
        )
        comparison = Comparison(
            session=session_id,
            model=", ".join(recorded.models),
            new_session=new_id,
            against=args.against,
            prompts=len(recorded.exchanges),
            prompts_sent=sent,
            divergence=found,
            recorded=_stats(store, session_id),
            new=_stats(store, new_id),
            copy=str(copy) if changed else None,
            changed=changed,
            notes=tuple(_notes(recorded)),
        )
        _report(comparison, as_json=args.output == "json")
        return code
    finally:
        if not changed:
            for folder in (copy, SnapshotStore(state_dir(), copy).folder):
                shutil.rmtree(folder, ignore_errors=True)


def _empty_folder() -> Path:
    """Make a folder for the copy. Raises CodeagentError."""
    try:
        return Path(tempfile.mkdtemp(prefix="codeagent-replay-")).resolve()
    except OSError as error:
        raise CodeagentError(
            f"no folder can be made for the copy ({error.strerror}); nothing was run"
        ) from error


def _moved(old: str, new: str, text: str) -> str:
    """Return the text with the path of one folder in place of that of another."""
    return text if old in ("", "/") else re.sub(rf"{re.escape(old)}(?![\w-])", lambda _: new, text)


async def _copied(recorded: Outline, session_id: str, copy: Path) -> GitCheckpoints:
    """Write out the files that the session began with, as a repository of their own; returns what
    watches them.

    Raises CodeagentError if they are not known any longer.
    """
    kept = GitCheckpoints(state_dir(), Path(recorded.workspace))
    try:
        await kept.write_out(recorded.snapshot, copy)
    except (CheckpointError, OSError) as error:
        raise CodeagentError(
            f"the files that session {session_id} began with are no longer known ({error}); nothing was run"
        ) from error
    finally:
        kept.close()
    await asyncio.to_thread(
        commit_all, copy, f"The files that session {session_id} began with", os.environ
    )
    return GitCheckpoints(state_dir(), copy)


async def _run(
    args: argparse.Namespace, app: "App", recorded: Outline, copy: Path
) -> tuple[str, int, int]:
    """Send the prompts, one after the other, as long as they end well.

    Returns the new session's id, how many prompts were sent, and the exit code of the last one.
    """
    settings, here = _settings(args, copy), partial(_moved, recorded.workspace, str(copy))
    local = LocalEnvironment.of_user(copy)
    front = Headless(
        Streams(None, Streams.standard().err), local.redactor, output="text", approve=args.yes
    )
    try:
        session = await app.open_session(
            settings, local, tell=front.say, observer=front.show_outside
        )
        async with session:
            steering = _Steering(session)
            sent, code = 0, 0
            for exchange in recorded.exchanges:
                front.say(
                    f"prompt {sent + 1} of {len(recorded.exchanges)}: {one_line(exchange.prompt, 80)}"
                )
                steering.due = [
                    (batch, replace(act, text=here(act.text))) for batch, act in exchange.steering
                ]
                sent, code = sent + 1, await front.run(session, here(exchange.prompt))
                if code not in _GOES_ON:
                    break
            return session.id, sent, code
    finally:
        await front.close()


def _settings(args: argparse.Namespace, copy: Path) -> Settings:
    """Load the settings for the copy; without a sandbox every command is denied. Raises
    ConfigError."""
    given = argparse.Namespace(model=args.against, api_base=args.api_base, sandbox=args.sandbox)
    settings = settings_of(given, copy)
    if settings.sandbox.kind != "off":
        return settings
    say("without a sandbox, bash and python are denied: nothing would keep them in the copy")
    given.deny = _COMMANDS
    return settings_of(given, copy)


class _Steering:
    """Repeats what the user said while the model was working, after the same number of batches."""

    def __init__(self, session: Session) -> None:
        self.due: list[tuple[int, Steer | Interrupt]] = []
        """Texts of the running prompt: the number of batches after which each is sent, and the
        act."""
        self._agent = session.agent
        session.agent.observe(self._observe)

    def _observe(self, event: KnownEvent) -> None:
        while (
            isinstance(event, BatchPlanned)
            and event.agent == MAIN
            and self.due
            and self.due[0][0] <= event.batch
        ):
            self._agent.do(self.due.pop(0)[1])


def _notes(recorded: Outline) -> Iterable[str]:
    if recorded.since > 1:
        yield f"the files are as they were at prompt {recorded.since}: the agent had not changed any until then"
    yield from (f"not repeated: {what}" for what in recorded.not_repeated)
    yield from (f"not in the copy: {what}" for what in recorded.left_out)


def _stats(store: SessionStore, session_id: str) -> SessionStats:
    return gather_stats(store.with_children(store.read(session_id).events))


@dataclass(frozen=True)
class Comparison:
    """How a session went with two models."""

    session: str
    model: str
    new_session: str
    against: str
    prompts: int
    prompts_sent: int
    divergence: Divergence | None
    recorded: SessionStats
    new: SessionStats
    copy: str | None
    """Where the copy is kept; None if it was removed because nothing in it was changed."""
    changed: tuple[str, ...]
    """Paths in the copy that changed."""
    notes: tuple[str, ...]


def _report(comparison: Comparison, *, as_json: bool) -> None:
    redactor = Redactor(os.environ)
    if as_json:
        counted = {
            name: _figures(stats)
            for name, stats in (("recorded", comparison.recorded), ("new", comparison.new))
        }
        print_json(_cleaned(asdict(comparison) | counted, redactor))
    else:
        print("\n".join(visible(redactor.clean(line)) for line in _lines(comparison)))


def _cleaned(value: object, redactor: Redactor) -> object:
    match value:
        case str():
            return redactor.clean(value)
        case dict():
            return {name: _cleaned(item, redactor) for name, item in value.items()}
        case list() | tuple():
            return [_cleaned(item, redactor) for item in value]
        case _:
            return value


def _figures(stats: SessionStats) -> dict[str, object]:
    return {
        "turns": stats.turns,
        "calls": stats.total_calls,
        "failed_calls": stats.failed,
        "usage": asdict(stats.usage),
    }


def _lines(comparison: Comparison) -> Iterable[str]:
    yield f"session   {comparison.session}: {comparison.model}, {_counts(comparison.recorded)}"
    yield f"against   {comparison.new_session or 'no session'}: {comparison.against}, {_counts(comparison.new)}"
    yield f"prompts   {comparison.prompts_sent} of {comparison.prompts}"
    if (found := comparison.divergence) is None:
        yield "diverged  nowhere: the same calls, and the same answers"
    else:
        yield f"diverged  in turn {found.turn} of prompt {found.prompt}"
        nothing = "(nothing)"
        yield f"  then    {one_line(found.recorded, _LONGEST) or nothing}"
        yield f"  now     {one_line(found.new, _LONGEST) or nothing}"
    if comparison.copy is None:
        yield "copy      removed: nothing in it was changed"
    else:
        yield f"copy      kept in {comparison.copy}: {count(len(comparison.changed), 'file')} changed"
        yield from (f"  {path}" for path in comparison.changed[:_MOST_NAMED])
        if (more := len(comparison.changed) - _MOST_NAMED) > 0:
            yield f"  and {more:,} more"
    yield from (f"note      {note}" for note in comparison.notes)


def _counts(stats: SessionStats) -> str:
    usage = stats.usage
    about = "about " if usage.estimated else ""
    cost = "no price known" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    tokens = f"{about}{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return f"{count(stats.turns, 'turn')}, {count(stats.total_calls, 'call')}, {tokens}, {cost}"
