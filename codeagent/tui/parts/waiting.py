"""What waits for the user, and what they did about it so far; nothing here draws."""

from collections.abc import Hashable
from dataclasses import replace
from typing import assert_never

from codeagent.core.acts import Answer
from codeagent.tui.parts.approval import ApprovalContext, approval_content, following_content
from codeagent.tui.parts.approval_body import Asked, asked
from codeagent.tui.parts.boundary import (
    pause_content,
    place_of,
    plan_content,
    rings,
    subjects_of,
    summary_content,
)
from codeagent.tui.parts.card_content import (
    CardContent,
    CardView,
    Fill,
    MarkChoice,
    MarkRow,
    Send,
    ShowAs,
    Writing,
)
from codeagent.tui.state import ApprovalQueue, AtBoundary, Followed, Paused, PlanReady, SummaryReady


class Waiting:
    """Approvals, the oldest first, and the boundary that the run waits at.

    An answer counts as sent until the asker has removed the question; drafts are kept as long as
    what they are about waits.
    """

    def __init__(self) -> None:
        self.boundary: AtBoundary = None
        self._asked: dict[str, Asked] = {}
        self._followed: tuple[Followed, ...] = ()
        self.listing = False
        """Whether all waiting calls are listed, to be allowed together."""
        self._split = False
        self._front: Hashable = None
        """The id of what is shown now."""
        self._views: dict[Hashable, CardView] = {}
        self._sent: dict[Hashable, str] = {}
        """Answers that are not yet confirmed, in words."""
        self._drafts: dict[tuple[str, str], str] = {}
        """Drafts, by subject, and by purpose and part."""
        self._filled: dict[str, dict[str, str]] = {}
        """What fields of forms hold, by the form and the field's name."""

    def update(self, approvals: ApprovalQueue, boundary: AtBoundary) -> bool:
        """Update what waits; True if something is new and the user did not ask for it."""
        self._followed = approvals.followed
        waiting = approvals.waiting
        before, known = self.boundary, self._asked
        self._asked = {
            each.approval_id: known.get(each.approval_id) or asked(each) for each in waiting
        }
        self.boundary = boundary
        place = place_of(boundary)
        subjects = {*self._asked, *subjects_of(boundary)}
        self._sent = {
            about: words
            for about, words in self._sent.items()
            if about in subjects or about == place
        }
        self._drafts = {key: text for key, text in self._drafts.items() if key[0] in subjects}
        self._filled = {key: texts for key, texts in self._filled.items() if key in subjects}
        if before != boundary and (view := self._views.get(place)) is not None:
            self._views[place] = replace(view, problem="")
        return bool(self._asked.keys() - known.keys()) or (
            rings(boundary) and place_of(before) != place
        )

    def content(
        self, *, stepping: bool, focused: bool, wide: bool, rows: int, now: float, keep_key: str
    ) -> CardContent | None:
        """Return what the card shows, or None: a question, else a pause or a plan unless it was put
        away, else a call that is followed.

        `wide`: there is room for two columns. `rows` is how many the body may have, `now` is in
        seconds since the epoch, and `keep_key` is the key that changes how long a rule holds, as a
        user reads it.
        """
        calls = tuple(
            each
            for key, each in self._asked.items()
            if each.question is None and key not in self._sent
        )
        self.listing = self.listing and len(calls) > 1
        shown = calls if self.listing else tuple(self._asked.values())[:1]
        place = place_of(self.boundary)
        self._front = tuple(each.waiting.approval_id for each in shown) if shown else place
        self._views = {
            key: view for key, view in self._views.items() if key in (self._front, place)
        }
        view = self._views.get(self._front, CardView())
        if shown:
            front = shown[0].waiting.approval_id
            context = ApprovalContext(
                waiting=len(self._asked),
                calls=len(calls),
                split=self._split,
                wide=wide,
                now=now,
                keep_key=keep_key,
                sent=self._sent.get(front, ""),
                rows=rows,
                filled=self._filled.get(front, {}),
            )
            return approval_content(shown, view, context)
        sent = self._sent.get(place, "")
        match self.boundary:
            case Paused() as paused:
                return pause_content(paused, view, stepping=stepping, focused=focused, sent=sent)
            case PlanReady() as plan if not view.away:
                return plan_content(plan, self.text, sent=sent)
            case SummaryReady() as summary:
                return summary_content(summary, self.text, sent=sent)
            case _:
                return (
                    following_content(self._followed[-1], len(self._followed) - 1)
                    if self._followed
                    else None
                )

    @property
    def text(self) -> str:
        """The plan that would be started, or the summary that would be used, with the user's
        changes; empty if none waits."""
        match self.boundary:
            case PlanReady(text):
                return self._drafts.get((text, "plan"), text)
            case SummaryReady(text):
                return self._drafts.get((text, "summary"), text)
            case _:
                return ""

    def waits(self, subject: str) -> bool:
        """Whether it waits and was not answered yet."""
        return subject not in self._sent and (
            subject in self._asked or subject in subjects_of(self.boundary)
        )

    def begun(self, write: Writing) -> str:
        """Return the text to start from: the draft, if there is one."""
        return self._drafts.get((write.subject, write.purpose + write.part), write.text)

    def keep(self, write: Writing, text: str) -> None:
        """Keep a draft."""
        self._drafts[write.subject, write.purpose + write.part] = text

    def fill(self, what: Fill) -> None:
        """Put a text into a field of a form."""
        self._drafts.pop((what.form, "answer" + what.field), None)
        self._filled.setdefault(what.form, {})[what.field] = what.text
        self.mark(MarkRow(what.row))

    def mark(self, what: MarkRow | MarkChoice) -> None:
        """Move the mark in what is shown."""
        view = self._views.get(self._front, CardView())
        match what:
            case MarkRow():
                self._views[self._front] = replace(view, marked="", row=what.row)
            case MarkChoice():
                self._views[self._front] = replace(view, marked=what.key, row=None)
            case _:
                assert_never(what)

    def turn(self, what: ShowAs) -> None:
        """Show it another way."""
        match what.view:
            case "all":
                self.listing = what.on
            case "split":
                self._split = what.on
            case "about":
                self._views[self._front] = replace(
                    self._views.get(self._front, CardView()), about=what.on
                )
            case "away":
                self._views[place_of(self.boundary)] = CardView(away=what.on)
            case _:
                assert_never(what.view)

    def send(self, send: Send) -> Send:
        """Record answers; returns the acts for questions that still wait."""
        acts = tuple(
            act for act in send.acts if not isinstance(act, Answer) or self.waits(act.approval_id)
        )
        for act in acts if send.words else ():
            self._sent[act.approval_id if isinstance(act, Answer) else place_of(self.boundary)] = (
                send.words
            )
        self.listing = False
        return replace(send, acts=acts)

    def not_sent(self) -> None:
        """Forget what the user wanted at the boundary: it could not be done."""
        self._sent.pop(place_of(self.boundary), None)

    def refuse(self, call_id: str, problem: str) -> bool:
        """Say what is wrong with the edit of a call; False if the call is gone."""
        if call_id not in subjects_of(self.boundary):
            return False
        place = place_of(self.boundary)
        self._views[place] = replace(self._views.get(place, CardView()), problem=problem)
        return True
