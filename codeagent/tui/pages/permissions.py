"""The page of /permissions: the rules in force, and everything that was allowed or denied so
far."""

import time
from collections.abc import Iterator, Sequence
from typing import assert_never

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.events import Mount

from codeagent.config.local_environment import PROJECT_FILE, user_config_file
from codeagent.core.acts import AllowRule, RevokeRule
from codeagent.core.audit import LedgerRow, decided_by
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.policy import Permission, Rule, RuleOrigin
from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import keymap_of
from codeagent.tui.pages.page import Guarded, ListKeys, Page, TextPane, beside
from codeagent.tui.pages.rule_editor import RuleEditor
from codeagent.tui.parts.marked_list import MarkedList
from codeagent.tui.parts.rows import HintRow, TitleRow
from codeagent.tui.rendering.lines import Line, Styled, cut_end, cut_middle, flat, line, wrap
from codeagent.tui.rendering.palette import PERMISSION, Palette, StyleName
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState
from codeagent.tui.transcript.spelling import counted

WORDS: dict[Permission, str] = {"auto": "allow", "prompt": "ask", "deny": "deny"}
_OUTCOMES: dict[str, StyleName] = {"allowed": "success", "denied": "error", "cancelled": "muted"}
ORIGINS: dict[RuleOrigin, str] = {
    "flag": "the command line",
    "session": "this session",
    "saved": "kept for this folder",
    "user": "your config.toml",
    "project": "the project's config.toml",
}
_OUTCOME = 9
"""The width of `cancelled`, the longest outcome, in cells."""
_WORD = 5
_LONGEST_TOOL = 12
_ROOMY = 90
"""Cells from which on there is room for the rule or reason of a decision."""
_FEW = 20
"""The fewest cells in which a rule or reason is worth showing."""
_LABEL = 10
_HINTS = (
    "{permissions.close} closes",
    "{permissions.show} shows all",
    "{permissions.revoke} revokes",
    "{permissions.new} new rule",
    "{permissions.propose} rule from a decision",
    "{permissions.part} next part",
)
_REVOKE = "{permissions.revoke} revokes a rule; {permissions.part} goes to the rules"
_PROPOSE = (
    "{permissions.propose} makes a rule from a decision; {permissions.part} goes to the decisions"
)
_LOOK = 0.5
"""Seconds between two checks for changes; nothing is drawn if nothing changed."""


Entry = str | Rule | LedgerRow
"""A row: a heading, which cannot be marked, a rule, or a decision."""


class PermissionList(MarkedList[Entry]):
    """Lists rules in the order given, then decisions, the newest first, each below a heading. Fills
    the screen."""

    DEFAULT_CSS = """
    PermissionList {
        height: 1fr;
        scrollbar-gutter: stable;
    }
    """
    _origin = _who = _tool = 0
    """The width of these columns in every row, in cells."""

    def fill(self, rules: Sequence[Rule], decisions: Sequence[LedgerRow]) -> None:
        """Show these rules and decisions instead."""
        self._origin = max((len(ORIGINS[rule.origin]) for rule in rules), default=0)
        self._who = max((cell_len(decided_by(row)) for row in decisions), default=0)
        self._tool = min(
            _LONGEST_TOOL, max((cell_len(flat(row.tool)) for row in decisions), default=0)
        )
        none = f"No rules in force; {keymap_of(self).shown('permissions.new')} writes one"
        decided = "Decisions so far, the newest first" if decisions else "No decisions so far"
        self.show(("Rules in force" if rules else none, *rules, "", decided, *reversed(decisions)))

    def is_heading(self, row: Entry) -> bool:
        return isinstance(row, str)

    def other_part(self) -> bool:
        """Move the mark from the rules to the newest decision, or from the decisions to the first
        rule; False if the other part is empty."""
        here = type(self.marked)
        other = [at for at in self._places() if type(self._rows[at]) is not here]
        if other:
            self._mark(other[0])
        return bool(other)

    def parts(self, row: Entry, width: int, palette: Palette, *, marked: bool) -> Styled:
        match row:
            case str():
                return [(" ", None), (cut_end(row, max(0, width - 4)), palette.heading)]
            case Rule():
                return self._rule(row, width, palette)
            case LedgerRow():
                return self._decision(row, width, palette)
            case _:
                assert_never(row)

    def _rule(self, rule: Rule, width: int, palette: Palette) -> Styled:
        room = width - _WORD - 2
        beside = self._origin + 2 if room - self._origin - 2 >= _FEW else 0
        text = set_cell_size(cut_middle(flat(str(rule)), room - beside), max(0, room - beside))
        parts: Styled = [
            (f"{WORDS[rule.permission]:<{_WORD}}  ", palette.named(PERMISSION[rule.permission])),
            (text, palette.text),
        ]
        return [*parts, (f"  {ORIGINS[rule.origin]}", palette.muted)] if beside else parts

    def _decision(self, row: LedgerRow, width: int, palette: Palette) -> Styled:
        parts: Styled = [
            (time.strftime("%H:%M:%S  ", time.localtime(row.at)), palette.muted),
            (f"{row.outcome:<{_OUTCOME}}  ", palette.named(_OUTCOMES[row.outcome])),
            (f"{set_cell_size(decided_by(row), self._who)}  ", palette.text),
            (f"{set_cell_size(cut_end(flat(row.tool), self._tool), self._tool)}  ", palette.strong),
        ]
        room = width - sum(cell_len(text) for text, _ in parts)
        target, why = flat(row.target or row.what), flat(row.rule or row.reason)
        if not why or width < _ROOMY or room < 2 * _FEW:
            return [*parts, (cut_end(target, room), palette.text)]
        target = set_cell_size(cut_end(target, room * 3 // 5), room * 3 // 5)
        return [
            *parts,
            (target, palette.text),
            (f"  {cut_end(why, room - cell_len(target) - 2)}", palette.muted),
        ]


class PermissionPage(Page[None]):
    """A page with a rule or a decision in full."""

    def __init__(self, entry: Rule | LedgerRow) -> None:
        title, facts, whole = (
            _rule_facts(entry) if isinstance(entry, Rule) else _decision_facts(entry)
        )
        said = [(label, text) for label, text in facts if text]

        def piece(width: int, palette: Palette) -> Iterator[Line]:
            for label, text in said:
                lead = (f"{label:<{_LABEL}}  ", palette.muted)
                yield from beside([lead], [(text, palette.text)], width - _LABEL - 2)
            yield line([])
            for row in wrap([(whole, palette.code.text)], max(8, width), words=False):
                yield line(row.parts, joins=row.joins)

        plain = "\n".join([*(f"{label}: {text}" for label, text in said), "", whole])
        super().__init__(title, TextPane([piece], plain))


Facts = Sequence[tuple[str, str]]
"""Labels, each with the text beside it."""


def _rule_facts(rule: Rule) -> tuple[str, Facts, str]:
    """Return title, facts, and below them every character of the rule."""
    return "Rule", [("does", WORDS[rule.permission]), ("from", ORIGINS[rule.origin])], str(rule)


def _decision_facts(row: LedgerRow) -> tuple[str, Facts, str]:
    """Return title, facts, and below them everything that was decided about."""
    kept = ", also in later sessions in this folder" if row.keep else ""
    facts = [
        ("when", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at))),
        ("outcome", row.outcome),
        ("who", decided_by(row)),
        ("tool", row.tool),
        ("rule", row.rule and row.rule + kept),
        ("why", row.reason),
        ("as a rule", row.proposal),
    ]
    return "Decision", facts, row.what


class PermissionsScreen(ListKeys, Guarded[None]):
    """Covers the conversation, which continues; new decisions appear here as well."""

    DEFAULT_CSS = """
    PermissionsScreen {
        layout: vertical;
        background: $background;
        color: $foreground;
        & PermissionList { padding: 1 0 0 0; }
    }
    """
    BINDINGS = bindings("permissions")
    AUTO_FOCUS = ""

    def __init__(self, client: SessionClient, state: UiState) -> None:
        super().__init__()
        self._client = client
        self._state = state
        self._known: object = None
        self._title = TitleRow("Permissions")
        self.list: PermissionList = PermissionList()
        self._hints = HintRow()

    def compose(self) -> ComposeResult:
        self._hints.show((), _HINTS)
        yield self._title
        yield self.list
        yield self._hints

    @on(Mount)
    async def _begin(self) -> None:
        await self._refresh()
        self.set_interval(_LOOK, self._look)

    def settle(self) -> None:
        self._hints.tell("")

    def action_other_part(self) -> None:
        self._hints.tell("" if self.list.other_part() else "the other part is empty")

    def action_show(self) -> None:
        if (entry := self.list.marked) is not None and isinstance(entry, Rule | LedgerRow):
            self.app.push_screen(PermissionPage(entry))

    async def action_revoke(self) -> None:
        match self.list.marked:
            case Rule() as rule if rule.origin in ("session", "saved"):
                await self._revoke(rule)
            case Rule() as rule:
                self._hints.tell(_elsewhere(rule))
            case _:
                self._hints.tell(self.with_keys(_REVOKE))

    def action_new(self) -> None:
        self._write("New rule", "")

    def action_propose(self) -> None:
        match self.list.marked:
            case LedgerRow(proposal=proposal) if proposal:
                self._write("A rule from this decision", proposal)
            case LedgerRow():
                self._hints.tell(
                    self.with_keys(
                        "a rule cannot be made from this one; {permissions.new} writes one"
                    )
                )
            case _:
                self._hints.tell(self.with_keys(_PROPOSE))

    async def _revoke(self, rule: Rule) -> None:
        refused = await self._client.finish(RevokeRule(rule))
        await self._refresh()
        self._hints.tell(
            f"revoked, you will be asked again: {rule}" if refused is None else refused.reason
        )

    def _write(self, title: str, rule: str) -> None:
        async def allow(text: str, keep: bool) -> None:
            if (refused := await self._client.finish(AllowRule(text, keep))) is not None:
                raise ConfigError(refused.reason)

        async def done(said: str | None) -> None:
            if said:
                await self._refresh()
                self._hints.tell(said)

        self.app.push_screen(RuleEditor(title, rule, allow), done)

    async def _look(self) -> None:
        if self._moment() != self._known:
            await self._refresh()

    def _moment(self) -> object:
        """Return a value that changes when rules or decisions may have changed."""
        now = self._state.status.now
        try:
            return (
                self._state.approvals.waiting,
                now.run.phase,
                now.run.batch,
                self._client.agent.rules,
            )
        except CodeagentError:
            return None

    async def _refresh(self) -> None:
        try:
            await self._load()
        except CodeagentError as error:
            self._hints.tell(str(error))

    async def _load(self) -> None:
        """Read the rules and decisions. Raises CodeagentError."""
        self._known = self._moment()
        rules, decisions = self._client.agent.rules, await self._client.decisions()
        self.list.fill(rules, decisions)
        self._title.tell(f"{counted(len(rules), 'rule')} · {counted(len(decisions), 'decision')}")


def _elsewhere(rule: Rule) -> str:
    """Return where to remove a rule that the screen cannot revoke."""
    match rule.origin:
        case "flag":
            return "it came with the command line, and ends with this process"
        case "project":
            return f"it is in the project's {PROJECT_FILE}: remove it there"
        case _:
            return f"it is in {user_config_file()}: remove it there"
