"""What a session holds as a reader tells it: prompts, answers, calls with their results, in
order."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from codeagent.core.approval_events import ApprovalResolved, EffectsFound
from codeagent.core.compaction import ContextCompacted, compacted_words
from codeagent.core.dataclass import dataclass
from codeagent.core.display import (
    DiffBlock,
    DisplayBlock,
    FilesBlock,
    ImageBlock,
    MarkdownBlock,
    QuestionBlock,
    TerminalBlock,
    TextBlock,
)
from codeagent.core.events import (
    CheckpointRestored,
    JobFinished,
    KnownEvent,
    MessageAdded,
    Notice,
    ProviderToolUsed,
    RunFinished,
    RunStarted,
    ToolCallAdded,
    ToolResultAdded,
    ToolStarted,
    TurnFinished,
    UnknownEvent,
)
from codeagent.core.json_types import MAIN
from codeagent.core.messages import AssistantMessage, ImagePart, UserMessage, text_of
from codeagent.core.notices import AgentStarted, TypedNotice
from codeagent.core.sanitize import on_one_line

Clean = Callable[[str], str]
"""Masks secrets, and shows characters that would act on a terminal."""


@dataclass(frozen=True)
class Said:
    """A message of the user, of codeagent itself, or of the model."""

    by: str
    """`prompt`, `task`, `steer`, `interrupt`, `follow_up`, `note`, `answer`, `thinking`."""
    text: str
    images: tuple[ImagePart, ...] = ()


@dataclass(frozen=True)
class Piece:
    """A part of a result: its text, and the language a reader would highlight it as."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Call:
    """One call with its result."""

    name: str
    target: str
    how: str
    """`done`, or why not; who allowed it, by which rule; how long it took."""
    failed: bool
    arguments: str
    """JSON, indented; empty if it never ran, or its result shows them."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Aside:
    """Something in between, in one line: where a run began and ended, a notice, what was taken
    back."""

    text: str
    level: str = "info"
    """`info`, `warning`, `error`, or `run` for the edge of a run."""


@dataclass(frozen=True)
class ChildStory:
    """What the agent that a call started did; it comes before the result of that call."""

    name: str
    session: str
    entries: "tuple[Entry, ...]"


Entry = Said | Call | Aside | ChildStory


def story(events: Iterable[KnownEvent | UnknownEvent], clean: Clean) -> Iterator[Entry]:
    """Yield the entries of a session's events, every text cleaned; those of each child are
    together, in one entry."""
    started: dict[str, ToolStarted] = {}
    own = None
    for agent, part in groupby(answers_first(events), lambda event: event.agent):
        own = own or agent
        if agent == own:
            for event in part:
                yield from _told(event, started, clean)
            continue
        theirs = list(part)
        yield ChildStory(clean(agent), clean(theirs[0].session), tuple(story(theirs, clean)))


def answers_first(
    events: Iterable[KnownEvent | UnknownEvent],
) -> Iterator[KnownEvent | UnknownEvent]:
    """Yield the events, with what became of early calls moved behind the answer that asked for
    them."""
    held: dict[str, list[KnownEvent | UnknownEvent]] = {}
    asked: dict[str, set[str]] = {}
    for event in events:
        match event:
            case ToolCallAdded():
                asked.setdefault(event.agent, set()).add(event.call_id)
            case ToolStarted() | ToolResultAdded() if event.call_id in asked.get(event.agent, ()):
                held.setdefault(event.agent, []).append(event)
                continue
            case MessageAdded(message=AssistantMessage()) | TurnFinished():
                asked.pop(event.agent, None)
                yield event
                yield from held.pop(event.agent, ())
                continue
            case _:
                pass
        yield event
    for rest in held.values():
        yield from rest


def _told(
    event: KnownEvent | UnknownEvent, started: dict[str, ToolStarted], clean: Clean
) -> Iterator[Entry]:
    """`started`: the calls that have no result yet, by id."""
    match event:
        case MessageAdded(message=UserMessage() as message):
            images = tuple(part for part in message.content if isinstance(part, ImagePart))
            yield Said(speaker(event, message), clean(text_of(message.content)), images)
        case MessageAdded(message=AssistantMessage() as message):
            yield from _answer(message, clean)
        case ProviderToolUsed():
            yield _use(event, clean)
        case ToolStarted():
            started[event.call_id] = event
        case ToolResultAdded():
            yield _call(event, started.pop(event.call_id, None), clean)
        case ContextCompacted():
            yield Aside(clean(compacted_words(event)), "warning")
            if event.note:
                yield Said("note", clean(event.note))
        case _:
            yield from _remark(event, clean)


def speaker(event: MessageAdded, message: UserMessage) -> str:
    """Say whose message it is; the prompt of a child is the task that another agent gave it."""
    return "task" if event.agent != MAIN and message.source == "prompt" else message.source


def _answer(message: AssistantMessage, clean: Clean) -> Iterator[Said]:
    thought = "\n\n".join(thinking.text for thinking in message.thinking if thinking.text)
    if thought:
        yield Said("thinking", clean(thought))
    if message.text:
        yield Said("answer", clean(message.text))


def _call(result: ToolResultAdded, start: ToolStarted | None, clean: Clean) -> Call:
    allowed = (
        f"{result.approval}{f' ({result.rule})' if result.rule else ''}" if result.approval else ""
    )
    how = "done" if result.error is None else result.error.kind
    facts = (
        how,
        f"by {allowed}" if allowed else "",
        result.sandbox or "",
        f"{result.duration_ms} ms",
    )
    blocks = result.blocks or (TextBlock(text=text_of(result.content)),)
    pieces = tuple(piece for block in blocks if (piece := _piece(block)).text)
    is_told = any(isinstance(block, TerminalBlock) and block.exit_code for block in blocks)
    if (
        result.error is not None
        and not is_told
        and not any(result.error.message in piece.text for piece in pieces)
    ):
        pieces = (*pieces, Piece(result.error.message))
    shows_itself = any(isinstance(block, TerminalBlock | DiffBlock) for block in blocks)
    given = {} if start is None or shows_itself else start.arguments
    return Call(
        name=clean(result.name),
        target=clean("" if start is None else start.target),
        how=clean(" · ".join(fact for fact in facts if fact)),
        failed=result.error is not None,
        arguments=clean(json.dumps(given, indent=2, ensure_ascii=False)) if given else "",
        pieces=tuple(Piece(clean(piece.text), piece.language) for piece in pieces),
    )


def _use(use: ProviderToolUsed, clean: Clean) -> Call:
    """What the provider's own tool did, as a call that was not made here."""
    _, *lines = use.told(most=None).splitlines()
    return Call(
        name=clean(use.tool),
        target=clean(use.target),
        how=clean(f"{use.error or 'done'} · by the provider"),
        failed=bool(use.error),
        arguments="",
        pieces=tuple(Piece(clean(text)) for text in ("\n".join(lines), use.output) if text),
    )


def _piece(block: DisplayBlock) -> Piece:
    match block:
        case TextBlock():
            return Piece(block.text)
        case MarkdownBlock():
            return Piece(block.text, "markdown")
        case TerminalBlock():
            exit_line = "" if block.exit_code in (None, 0) else f"\n[exit {block.exit_code}]"
            return Piece(f"$ {block.command}\n{block.output.rstrip()}{exit_line}", "console")
        case DiffBlock():
            return Piece(unified(block), "diff")
        case FilesBlock():
            return Piece("\n".join(map(on_one_line, block.paths)))
        case ImageBlock():
            return Piece(f"[image {block.path} ({block.media_type})]")
        case QuestionBlock():
            listed = (*block.options, *(field.label for field in block.fields))
            return Piece("\n".join((block.question, *(f"- {text}" for text in listed))))
        case _:
            return Piece(f"[{block.type}]")


def unified(block: DiffBlock) -> str:
    """Return the change as a unified diff with three lines of context, as `git diff` writes it."""
    before, after, path = (
        block.before.splitlines(),
        block.after.splitlines(),
        on_one_line(block.path),
    )
    lines = list(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm=""))
    return "\n".join(lines)


def _remark(event: KnownEvent | UnknownEvent, clean: Clean) -> Iterator[Aside]:
    match event:
        case RunStarted():
            yield Aside(clean(f"run · {event.model} · {event.workspace} · {event.mode}"), "run")
        case RunFinished():
            error = f" · {event.error}" if event.error else ""
            yield Aside(
                clean(f"{event.reason} · {event.turns} turns · {event.calls} calls{error}"), "run"
            )
        case ApprovalResolved(source="user") if event.reason:
            yield Aside(clean(f"{event.answer}: {event.reason}"))
        case EffectsFound():
            yield Aside(clean(event.told()))
        case CheckpointRestored():
            back = " and the conversation" if event.conversation else ""
            yield Aside(
                clean(f"{event.kind}: {len(event.files)} files{back} were taken back"), "warning"
            )
        case JobFinished():
            yield Aside(clean(f"job {event.job_id} {event.status}: {event.summary}"))
        case AgentStarted() if event.agent == event.child:
            pass  # its parent said so
        case Notice() | TypedNotice():
            yield Aside(clean(event.text), event.level)
        case _:
            return
