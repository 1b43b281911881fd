"""Describes events in a few words: how a call, a job or a run ended, what a note or an answer says,
what was used."""

import time
from dataclasses import replace
from typing import assert_never

from codeagent.core import acts
from codeagent.core.acts import Act, Refused
from codeagent.core.approval_events import ApprovalResolved
from codeagent.core.compaction import ContextCompacted, compacted_words
from codeagent.core.events import (
    AsideAnswered,
    CheckpointRestored,
    JobFinished,
    LimitReached,
    ProviderToolUsed,
    ToolResultAdded,
    TurnFinished,
    UnknownEvent,
)
from codeagent.core.jobs import Job, TriggerAdded, TriggerEvent, TriggerFired, TriggerStopped
from codeagent.core.messages import Usage, UserMessage, text_of
from codeagent.core.notes import words_of
from codeagent.core.notices import (
    CompactionBegun,
    CompactionFailed,
    ModelChanged,
    ModelFellBack,
    ModelRetried,
    RunStopped,
    SummaryWritten,
)
from codeagent.core.sanitize import first_few
from codeagent.tui.parts.status import MODE_MEANS
from codeagent.tui.rendering.lines import cut_end, flat
from codeagent.tui.state import ASK_USER, SummaryReady, UiState
from codeagent.tui.transcript.blocks import CallState
from codeagent.tui.transcript.document import Document
from codeagent.tui.transcript.spelling import counted, duration

_MOST_FILES = 5
_UNDO = "/undo takes the last batch back"
_REFUSED = "key refused by"
"""Part of the message for a key that the provider refused (`llm.errors`)."""
_TOO_LONG = "the conversation is too long for the model"
_TOLD = {
    "(Plan mode:": "plan mode is on: nothing may be changed",
    "(Plan mode is over": "plan mode is over",
    "(The user took back": "which files you undid",
    "(The user brought back": "which files you restored",
    "(The user pinned": "",
    "(The user ran a command": "your command and its output",
    "(Your answer was": "",
    "(trigger-": "",
    "(message ": "",
}
"""How notes for the model begin (`agent.prompt`, `core.notes`, `agent.model_request`), and their
short form."""


def state_of(result: ToolResultAdded) -> CallState:
    match None if result.error is None else result.error.kind:
        case None:
            return "done"
        case "denied" | "skipped" | "cancelled" | "timeout" as kind:
            return kind
        case _:
            return "failed"


def note_of(result: ToolResultAdded) -> str:
    """Describe the outcome in a few words; empty if the call's state says it all."""
    details = result.details
    exit_code = details.get("exit_code")
    if isinstance(exit_code, int) and (exit_code != 0 or not result.is_error):
        changed = _changed(details.get("files_changed"))
        exited = f"exit {exit_code}" if exit_code or not changed else ""
        return " · ".join(filter(None, (exited, changed)))
    if result.is_error:
        return ""
    match result.name, details.get("matches"), details.get("files"):
        case "read", _, _ if "unchanged" in details:
            return "unchanged"
        case "read", _, _:
            numbered = sum(not line.startswith("[") for line in text_of(result.content).split("\n"))
            return counted(numbered, "line")
        case "search", int(matches), int(files):
            return f"{counted(matches, 'match', 'matches')} in {counted(files, 'file')}"
        case "list", _, int(files):
            return counted(files, "file")
        case _:
            return ""


def _changed(files: object) -> str:
    """Return how many files a command changed that was tried out; empty if it was not."""
    match files:
        case 0:
            return "✓ changed nothing"
        case int():
            return f"changed {counted(files, 'file')}"
        case _:
            return ""


def lines_left_out(result: ToolResultAdded) -> int:
    """Return how many lines the result does not show, besides the one that says so."""
    match result.details.get("lines_left_out"):
        case int(count) if count > 0:
            return count - 1
        case _:
            return 0


def error_of(result: ToolResultAdded) -> str:
    """Return what went wrong, unless the note already says so."""
    if result.error is None or note_of(result).startswith("exit "):
        return ""
    return result.error.message


def said_of(answer: ApprovalResolved, tool: str) -> str:
    """Return what the user answered in their own words; empty if nothing."""
    if answer.source != "user" or not answer.reason.strip():
        return ""
    if answer.answer == "deny":
        return f"you said no: {answer.reason}"
    return f"you answered: {answer.reason}" if tool == ASK_USER else ""


def show_note(note: UserMessage, state: UiState) -> None:
    """Show the attachments of the user's text, or else what the model was told; the end of a job is
    already shown."""
    if note.attached:
        state.document.attach(note.attached)
    elif words_of(note) not in state.jobs.end_notes and (told := told_of(text_of(note.content))):
        state.document.remark(told, "told")


def told_of(note: str) -> str:
    """Return what a note for the model is about, in the user's words; empty if the screen shows it
    otherwise."""
    known = next((words for start, words in _TOLD.items() if note.startswith(start)), None)
    return cut_end(flat(note.removeprefix("(").removesuffix(")")), 60) if known is None else known


def job_line(ended: JobFinished) -> str:
    """Return one line: which job ended, and how."""
    after = f" after {duration(ended.duration_ms / 1000)}" if ended.duration_ms else ""
    said = f"{ended.job_id} {ended.status}{after}: {cut_end(flat(ended.title), 40)}"
    return f"{said} · {cut_end(flat(ended.summary), 60)}" if ended.summary else said


def trigger_line(event: TriggerEvent) -> str:
    """Return one line: what a trigger waits for, that it fired, or who stopped it."""
    match event:
        case TriggerAdded(trigger=trigger):
            return flat(trigger.prompt)
        case TriggerFired(trigger=trigger):
            what = f" · {cut_end(flat(event.what), 60)}" if event.what else ""
            return f"{trigger.id} fired: {cut_end(flat(trigger.title), 60)}{what}"
        case TriggerStopped():
            return f"stopped by the {event.by}"
        case _:
            assert_never(event)


def trigger_row(event: TriggerEvent, before: Job | None) -> Job:
    """Return a trigger as a row of the list of jobs."""
    trigger = event.trigger
    row = before or Job(
        trigger.id, "", trigger.kind, flat(trigger.title), "waiting", started=event.ts
    )
    if isinstance(event, TriggerStopped):
        return replace(row, status="stopped", ended=event.ts)
    return replace(row, status="done", ended=event.ts) if trigger.over else row


def job_words(ended: JobFinished) -> str:
    """Return what a card says after the state of its job; `done` is spelled out, as that state has
    no words."""
    exited = f"exit {ended.exit_code}" if ended.exit_code else ""
    return " · ".join(
        part for part in ("done" if ended.status == "done" else "", ended.job_id, exited) if part
    )


def stopped_lines(stopped: RunStopped) -> tuple[str, ...]:
    """Return lines about what a stop did; what did not happen is left out."""
    killed, not_run, left, files = (
        stopped.killed,
        stopped.not_run,
        stopped.left_running,
        stopped.edits_kept,
    )
    lines = [
        "the model's answer was closed" if stopped.stream_closed else "",
        f"{counted(killed, 'process', 'processes')} killed" if killed else "",
        f"{counted(left, 'process', 'processes')} left running" if left else "",
        _kept(files) if files else "no file was changed",
        f"{counted(not_run, 'call')} not run" if not_run else "",
        _UNDO if files else "",
    ]
    return tuple(line for line in lines if line)


def failed_lines(error: str) -> tuple[str, ...]:
    """Return the next steps after a run that failed."""
    back = "Up brings your prompt back"
    steps = {
        _REFUSED: "/model to change it",
        _TOO_LONG: "/rewind to before what is too long, or /new",
    }
    return (" · ".join([*(step for words, step in steps.items() if words in error), back]),)


def restored_text(event: CheckpointRestored, moment: str) -> str:
    """Return one line: what going back did. `moment` is the prompt or batch it went back to."""
    count = len(event.files)
    files = event.files[0] if count == 1 else f"{count} files"
    did = {"undo": "undone", "redo": "restored", "rewind": "undone", "files": "restored"}[
        event.kind
    ]
    parts = [f"{did}: {files}"] if count else []
    if event.kind == "redo":
        return "; ".join([*parts, "everything is as it was before going back"])
    if event.conversation:
        parts.append(f"back to before “{moment}”: later messages are no longer sent to the model")
    return ("; ".join(parts) or "nothing had to be changed") + " (/redo to restore)"


def show_line(event: ProviderToolUsed | LimitReached | UnknownEvent, document: Document) -> None:
    """Show what an event is about in one line."""
    match event:
        case ProviderToolUsed():
            document.remark_above(event.told(), event.ts)
        case LimitReached():
            document.remark(f"the limit {event.limit} = {event.maximum:g} is reached", "warning")
        case UnknownEvent():
            document.remark(f"{event.type}: an event from a newer version; it is kept in the log")
        case _:
            assert_never(event)


def add_usage(usage: Usage, state: UiState, *, context: bool) -> None:
    """Count what a request used; `context` is False if a child made it, whose context is not the
    conversation's."""
    now = state.status.now
    costs = [cost for cost in (now.usage.cost_usd, usage.cost_usd) if cost is not None]
    filled = usage.input_tokens + usage.output_tokens if context else 0
    state.status.set(
        context_tokens=filled or now.usage.context_tokens,
        input_tokens=now.usage.input_tokens + usage.input_tokens,
        output_tokens=now.usage.output_tokens + usage.output_tokens,
        cache_read_tokens=now.usage.cache_read_tokens + usage.cache_read_tokens,
        cost_usd=sum(costs) if costs else None,
        estimated=now.usage.estimated or usage.estimated,
    )


def count_request(event: TurnFinished | AsideAnswered, state: UiState) -> None:
    """Count a request of the conversation; a side question takes up none of its context."""
    add_usage(event.usage, state, context=isinstance(event, TurnFinished))


def show_model(event: ModelChanged | ModelRetried | ModelFellBack, state: UiState) -> None:
    """Show that another model is used, or that the request is made again."""
    match event:
        case ModelChanged():
            state.status.set(model=event.model)
        case ModelRetried():
            state.document.break_off_answer()
            state.status.set(phase="retrying", retry_reason=event.reason)
        case ModelFellBack():
            state.document.drop_answer()
            state.document.remark(event.text, event.level)
            state.status.set(phase="asking", model=event.model, retry_reason="")
        case _:
            assert_never(event)


def show_compaction(
    event: CompactionBegun | SummaryWritten | CompactionFailed | ContextCompacted, state: UiState
) -> None:
    """Show the progress of a compaction; the run, if there is one, continues afterwards."""
    match event:
        case CompactionBegun():
            if event.cause == "overflow":
                state.document.remark("the conversation is too long for the model: compacting it")
            run = state.status.now.run
            since = run.since if run.in_run else event.ts
            state.status.set(phase="compacting", since=since)
        case SummaryWritten():
            add_usage(event.usage, state, context=False)
            state.document.remark(f"summary of {counted(event.replaces, 'message')}:")
            state.document.finish_answer(event.summary)
            if event.asked:
                state.boundary.set(SummaryReady(event.summary, event.replaces))
                state.status.set(phase="waiting")
        case CompactionFailed():
            state.document.remark(event.text, event.level)
        case ContextCompacted():
            state.document.remark(f"{compacted_words(event)}; the full text is still above")
            state.status.set(context_tokens=event.after_tokens)
        case _:
            assert_never(event)
    if isinstance(event, CompactionFailed | ContextCompacted):
        state.boundary.set(None)
        state.status.set(
            **(
                {"phase": "asking"}
                if state.status.now.run.in_run
                else {"phase": "idle", "halt": ""}
            )
        )


def show_act(act: Act, refused: Refused | None, state: UiState, *, running: bool) -> None:
    """Show what an act did if no event does; refused text returns to the composer."""
    match act:
        case _ if refused is not None:
            _give_back(act, refused, state)
        case acts.Prompt() | acts.RunRecipe() if running:
            state.status.set(phase="working", since=time.time())
        case acts.Stop() if running:
            state.status.set(halt="stopping")
        case acts.Step(on):
            state.status.set(stepping=on)
        case acts.SetMode(mode):
            state.status.set(mode=mode, notice=f"mode: {mode} · {MODE_MEANS[mode]}")
        case _:
            pass


def _give_back(act: Act, refused: Refused, state: UiState) -> None:
    """Return refused text to the composer; of other acts, the caller says why they were refused."""
    match act:
        case acts.Prompt(text) | acts.Steer(text) | acts.Interrupt(text) | acts.FollowUp(text):
            lost = text or ""
        case acts.RunShell(command, shared):
            lost = ("!" if shared else "!!") + command
        case _:
            return
    state.document.remark(refused.reason, "error")
    if lost:
        state.give_back(lost)


def _kept(files: tuple[str, ...]) -> str:
    return f"{counted(len(files), 'changed file')} kept: {first_few(files, _MOST_FILES)}"
