"""Card content for an approval, for all waiting calls, or for a question from the agent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial

from codeagent.core.acts import Answer
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.dataclass import dataclass
from codeagent.core.display import QuestionBlock, TerminalBlock
from codeagent.core.policy import EFFECTS, HOSTS, Decision
from codeagent.core.pulse import duration
from codeagent.core.sanitize import visible
from codeagent.tui.parts.approval_body import Asked, asker, pieces, question_pieces
from codeagent.tui.parts.card_content import (
    CardChoice,
    CardContent,
    CardView,
    ChooseHunks,
    KeyMeaning,
    LazyMeaning,
    MarkChoice,
    MarkRow,
    Say,
    Scroll,
    Send,
    ShowAs,
    Writing,
)
from codeagent.tui.parts.checks import call_edit, check_rule
from codeagent.tui.parts.form import form_keys, form_pieces, page_of
from codeagent.tui.parts.line_pane import SPLIT_FROM, Piece, blank, cut_piece
from codeagent.tui.parts.rows import Part
from codeagent.tui.rendering.lines import flat
from codeagent.tui.state import Followed

_ASKS = {
    "bash": "Run this command?",
    "edit": "Apply this edit?",
    "write": "Write this file?",
    "multi_edit": "Apply these edits?",
    "apply_patch": "Apply this patch?",
    "json_write": "Change this file?",
    "git_commit": "Make this commit?",
    "open_pull_request": "Open this pull request?",
    HOSTS: "Let this command reach the network?",
}
_SCROLLING = {
    key: Scroll(key) for key in ("up", "down", "pageup", "pagedown", "home", "end", "j", "k")
}
_NO = "n"
_SENT = {
    "once": "allowed once",
    "session": "allowed for this session",
    "rule": "allowed, with a rule",
    "edit": "as edited",
    "deny": "denied",
}
_BACK = CardChoice("esc", "back")


@dataclass(frozen=True)
class ApprovalContext:
    """The circumstances in which an approval is shown."""

    waiting: int
    """How many approvals wait."""
    calls: int
    """How many of their calls could be allowed together."""
    split: bool
    """The user wants diffs in two columns."""
    wide: bool
    """There is room for two columns."""
    now: float
    """The time, in seconds since the epoch."""
    keep_key: str
    """The key that changes how long a rule holds, as a user reads it."""
    sent: str = ""
    """The answer that is not yet confirmed, in words."""
    rows: int = 0
    """The rows for the body."""
    filled: Mapping[str, str] = field(default_factory=dict)
    """What fields of the form hold, by name, as far as the user changed them."""


def approval_content(
    shown: Sequence[Asked], view: CardView, context: ApprovalContext
) -> CardContent:
    """Return the oldest question alone, or all waiting calls, to be allowed together."""
    front, to_read = shown[0], tuple(each.waiting for each in shown)
    if front.question is not None and front.question.fields:
        return _form_content(front, front.question, view, context)
    if front.question is not None:
        return _question_content(front, front.question, view, context)
    choices = _choices(front, view, context) if len(shown) == 1 else choices_of_all(shown)
    marked = view.marked if view.marked in {choice.key for choice in choices} else _NO
    return CardContent(
        id=tuple(each.approval_id for each in to_read),
        scope="card",
        left=_title(shown),
        right=_waiting(shown, context),
        body=tuple(_all_pieces(shown, split=context.split, about=view.about)),
        drawn_of=(to_read, context.split, view.about),
        choices=choices,
        beside={**_SCROLLING, **_unavailable(shown, choices, context), **_marking(choices, marked)},
        marked=marked,
        to_read=to_read,
        sent=context.sent,
    )


def following_content(followed: Followed, more: int) -> CardContent:
    """Return a question that was answered and is followed while its call runs; it waits for
    nothing.

    `more`: how many others are followed.
    """
    commands = (
        block.command for block in followed.asked.blocks if isinstance(block, TerminalBlock)
    )
    reached = f"Reached so far: {', '.join(followed.hosts)}"
    return CardContent(
        id=("follows", followed.asked.approval_id),
        scope="follow",
        left=(Part(f"{asker(followed.asked)}Allowed, and running", 90, "strong"),),
        right=(Part(f"and {more} more" if more else "", 50),),
        body=(
            cut_piece(f"$ {next(commands, followed.asked.target)}", "text"),
            cut_piece(
                reached if followed.hosts else "The hosts that it connects to are shown here.",
                "muted",
            ),
        ),
        drawn_of=followed,
        choices=(),
    )


def _question_content(
    asked: Asked, question: QuestionBlock, view: CardView, context: ApprovalContext
) -> CardContent:
    """Return a question of the agent's; nothing is marked at first, and its number chooses an
    answer."""
    options, row = question.options, view.row
    answer = Writing(
        "question",
        asked.waiting.approval_id,
        "answer",
        lambda text: _answer(asked, Decision("once", text.strip())) if text.strip() else None,
        choices=(CardChoice("enter", "send this answer", "send", 90), _BACK),
        placeholder="your answer",
    )
    choices = [
        CardChoice("r", "another answer" if options else "answer", keep=80, does=answer),
        CardChoice(_NO, "do not answer", keep=100, does=_answer(asked, Decision("deny"))),
    ]
    if options:
        last = min(9, len(options))
        choices.insert(0, CardChoice("1" if last == 1 else f"1-{last}", "pick", keep=90))
    marked, last = view.marked or "", len(options) - 1
    beside = {**_SCROLLING, **_marking(choices, marked)}
    for at, text in enumerate(options, 1):
        beside[str(at)] = _answer(asked, Decision("once", text))
    if row is not None:
        beside["enter"] = beside[str(row + 1)]
    if options:
        beside["up"] = MarkRow(0 if row is None else max(0, row - 1))
        beside["down"] = MarkRow(0 if row is None else min(last, row + 1))
    return CardContent(
        id=(asked.waiting.approval_id,),
        scope="card",
        left=_title((asked,)),
        right=_waiting((asked,), context),
        body=question_pieces(question, row),
        drawn_of=(asked.waiting, row),
        choices=tuple(choices),
        beside=beside,
        marked=marked,
        at_end=row is not None,
        sent=context.sent,
        begins=None if options else answer,
    )


def _form_content(
    asked: Asked, question: QuestionBlock, view: CardView, context: ApprovalContext
) -> CardContent:
    """Return a form: a field is marked and filled in, and all are sent together."""
    row = min(view.row or 0, len(question.fields) - 1)
    shown = page_of(question, row, context.rows)
    choices, beside = form_keys(question, context.filled, row, asked.waiting.approval_id)
    paged = len(shown) < len(question.fields)
    place = Part(
        f"fields {shown[0] + 1}–{shown[-1] + 1} of {len(question.fields)}" if paged else "", 70
    )
    return CardContent(
        id=(asked.waiting.approval_id,),
        scope="card",
        left=_title((asked,)),
        right=(place, *_waiting((asked,), context)),
        body=(*question_pieces(question, None), *form_pieces(question, context.filled, row, shown)),
        drawn_of=(asked.waiting, row, shown, tuple(context.filled.items())),
        choices=choices,
        beside={**_SCROLLING, **beside},
        at_end=view.row is not None,
        sent=context.sent,
    )


@dataclass(frozen=True)
class _Words:
    """What the usual answers are called for a question, whole and short."""

    yes: tuple[str, str] = ("allow once", "allow")
    session: tuple[str, str] | None = ("allow for this session", "session")
    """None: this exact call cannot come again."""
    like: tuple[str, str] = ("always allow like this…", "always…")
    no: tuple[str, str] = ("deny", "deny")
    sent: Mapping[str, str] = field(default_factory=lambda: _SENT)


_USUAL = _Words()
_WORDS = {
    EFFECTS: _Words(
        yes=("take all", "take"),
        session=None,
        like=("take, and its like…", "its like…"),
        no=("throw away", "away"),
        sent=_SENT | {"once": "taken", "rule": "taken, with a rule", "deny": "thrown away"},
    )
}


def _words(waiting: ApprovalRequested) -> _Words:
    return _WORDS.get(waiting.name, _USUAL)


def _choices(asked: Asked, view: CardView, context: ApprovalContext) -> tuple[CardChoice, ...]:
    said = _words(asked.waiting)
    once = _answer(asked, Decision("once"))
    out = [CardChoice("y", *said.yes, 90, allows=True, does=once)]
    if said.session is not None:
        out.append(
            CardChoice(
                "a", *said.session, 60, allows=True, does=_answer(asked, Decision("session"))
            )
        )
    out += _beyond(asked, context.keep_key)
    out.append(CardChoice(_NO, *said.no, 100, does=_answer(asked, Decision("deny"))))
    out.append(CardChoice("r", f"{said.no[0]}, because…", "because…", 70, does=_reason(asked)))
    if asked.waiting.name == HOSTS:
        never = Decision("deny", rule=asked.waiting.proposal, keep=True)
        out.append(CardChoice("v", "never", keep=80, does=_answer(asked, never)))
    if context.calls > 1:
        out.append(CardChoice("A", "all of them…", "all…", 40, does=ShowAs("all", True)))
    if asked.waiting.about:
        words = "hide what it is" if view.about else "what it is"
        out.append(CardChoice("i", words, "about", 65, does=ShowAs("about", not view.about)))
    if context.wide and asked.rows:
        out.append(
            CardChoice(
                "t",
                "unified" if context.split else "split",
                keep=30,
                does=ShowAs("split", not context.split),
            )
        )
    return tuple(out)


def _beyond(asked: Asked, keep_key: str) -> Iterator[CardChoice]:
    """Return the answers other than yes and no that are possible for this call."""
    waiting = asked.waiting
    if waiting.proposal:
        rule = _rule(waiting, keep_key, keep=waiting.name == HOSTS)
        yield CardChoice("p", *_words(waiting).like, 55, allows=True, does=rule)
    if waiting.arguments:
        yield CardChoice("e", "edit", keep=50, does=partial(_edit, asked))
    if asked.by_hunk:
        hunks = Send((ChooseHunks(waiting.approval_id, asked.by_hunk),))
        yield CardChoice("h", "hunk by hunk", "hunks", 45, does=hunks)


def choices_of_all(shown: Sequence[Asked]) -> tuple[CardChoice, ...]:
    """Return the choices for the list of all waiting calls."""
    acts = tuple(Answer(each.waiting.approval_id, Decision("once")) for each in shown)
    allow = "allow both" if len(shown) == 2 else f"allow all {len(shown)}"
    return (
        CardChoice("A", allow, keep=90, allows=True, does=Send(acts, _SENT["once"])),
        CardChoice(_NO, "review one by one", "one by one", 100, does=ShowAs("all", False)),
    )


def _answer(asked: Asked, decision: Decision) -> Send:
    sent = _words(asked.waiting).sent[decision.answer]
    return Send((Answer(asked.waiting.approval_id, decision),), sent)


def _reason(asked: Asked) -> Writing:
    no, short = _words(asked.waiting).no
    return Writing(
        "question",
        asked.waiting.approval_id,
        "reason",
        lambda text: _answer(asked, Decision("deny", text.strip())),
        choices=(CardChoice("enter", f"{no}, with this reason", short, 90), _BACK),
        placeholder=f"{no}, because …",
    )


def _rule(waiting: ApprovalRequested, keep_key: str, *, keep: bool) -> Writing:
    """Let the user write a rule that allows the call and everything it matches; if `keep`, also in
    later sessions."""
    enter = "always allow in this folder" if keep else "allow for this session"
    instead = "only this session" if keep else "always, in this folder"

    def give(text: str) -> Send:
        decision = Decision("rule", rule=text.strip(), keep=keep)
        return Send((Answer(waiting.approval_id, decision),), _words(waiting).sent["rule"])

    return Writing(
        "question",
        waiting.approval_id,
        "rule",
        give,
        text=visible(waiting.proposal),
        choices=(
            CardChoice("enter", enter, "always" if keep else "session", 90, allows=True),
            CardChoice(keep_key, instead, keep=95),
            _BACK,
        ),
        judge=partial(check_rule, waiting=waiting, keep=keep),
        allows=True,
        other=partial(_rule, waiting, keep_key, keep=not keep),
    )


def _edit(asked: Asked) -> Writing | Say:
    """Let the user edit the arguments: a command or a message of one line in the line, anything
    else in the user's editor."""
    waiting = asked.waiting
    edit = call_edit(waiting.name, waiting.arguments)
    if edit is None:
        return Say("its arguments cannot be read; r: say what to do instead")
    return Writing(
        "question",
        waiting.approval_id,
        edit.kind,
        lambda text: _answer(asked, Decision("edit", arguments=edit.arguments(text))),
        text=edit.text,
        choices=(CardChoice("enter", "ask about this instead", "send", 90, allows=True), _BACK),
        judge=edit.check,
        suffix=edit.suffix,
    )


def _unavailable(
    shown: Sequence[Asked], choices: Sequence[CardChoice], context: ApprovalContext
) -> dict[str, KeyMeaning]:
    """Say why keys that work for other calls, or in a wider window, do nothing for this one."""
    out: dict[str, KeyMeaning] = {}
    if len(shown) == 1:
        out = {
            "a": Say("what a command changed is asked about each time; p: a rule for its like"),
            "p": Say("no rule can be proposed for this: answer it each time"),
            "e": Say("this call cannot be edited; r: say what to do instead"),
            "h": Say("this cannot be split: y is for all of it"),
            "i": Say("this is a tool of codeagent's own: info explains it"),
            "v": Say(
                "`never` is only for hosts: n denies this call, a deny rule denies it for good"
            ),
        }
    if shown[0].rows and not context.wide:
        out["t"] = Say(f"two columns need {SPLIT_FROM} cells")
    offered = {choice.key for choice in choices}
    return {key: why for key, why in out.items() if key not in offered}


def _marking(choices: Sequence[CardChoice], marked: str) -> dict[str, LazyMeaning]:
    """Let Left and Right move the mark to the next choice, and Enter choose it."""
    does = {choice.key: choice.does for choice in choices if choice.does is not None}
    keys = list(does)
    at, last = keys.index(marked or _NO), len(keys) - 1
    moves = {"left": MarkChoice(keys[max(0, at - 1)]), "right": MarkChoice(keys[min(at + 1, last)])}
    return {**moves, "enter": does[marked]} if marked else {**moves}


def _all_pieces(shown: Sequence[Asked], *, split: bool, about: bool) -> Iterator[Piece]:
    """Return everything that is asked, as pieces; `about`: with what a single tool says about
    itself."""
    for at, each in enumerate(shown, 1):
        if at > 1:
            yield blank
        alone = len(shown) == 1
        heading = "" if alone else f"{at} of {len(shown)}"
        yield from pieces(each, split=split, heading=heading, about=about and alone)


def _title(shown: Sequence[Asked]) -> tuple[Part, ...]:
    """Return `Apply this edit?  src/dates.py  +3 −1`, or how many calls are listed; a command is
    only shown below."""
    if len(shown) > 1:
        every = "both" if len(shown) == 2 else f"all {len(shown)}"
        return (Part(f"Allow {every} calls?", 90, "strong"),)
    front = shown[0]
    if front.question is not None:
        return (Part(f"{asker(front.waiting)}A question for you", 90, "strong"),)
    name = front.waiting.name
    words = asker(front.waiting) + (_ASKS.get(name) or f"Allow {flat(name)}?")
    asks = Part(words, 90, "strong")
    if name == EFFECTS:  # it says what the command changed
        return (Part(asker(front.waiting) + flat(front.waiting.target), 90, "strong"),)
    target = Part(flat(front.waiting.target), 70, "text")
    if front.changed is None:
        return (asks,) if name in _ASKS else (asks, target)
    added, removed = front.changed
    return (asks, target, Part(f"+{added} −{removed}", 60))


def _waiting(shown: Sequence[Asked], context: ApprovalContext) -> tuple[Part, ...]:
    """Return a text such as `1 of 3  waiting 12 s`."""
    age = duration(context.now - min(each.waiting.ts for each in shown))
    count = f"1 of {context.waiting}" if context.waiting > 1 and len(shown) == 1 else ""
    return (Part(count, 90), Part(f"waiting {age}", 50))
