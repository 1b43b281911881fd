"""What is allowed here, and everything that was allowed or denied so far."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from codeagent.config.paths import PROJECT_FILE, user_config_file
from codeagent.core.acts import AllowRule, RevokeRule
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.policy import Rule
from codeagent.tui.screens.permission_list import PermissionList
from codeagent.tui.screens.permission_page import PermissionPage
from codeagent.tui.screens.permission_rows import DecisionEntry, RuleEntry, entries_of
from codeagent.tui.screens.rule_editor import RuleEditor
from codeagent.tui.screens.title_row import HintRow, TitleRow
from codeagent.tui.session_client import SessionClient
from codeagent.tui.stage import Stage

_LOOK = 0.5
"""Seconds between two looks at whether something happened; nothing is drawn where nothing did."""


class PermissionsScreen(ModalScreen[None]):
    """Covers the conversation, which goes on; what happens meanwhile shows."""

    DEFAULT_CSS = """
    PermissionsScreen {
        layout: vertical;
        background: $background;
        color: $foreground;
        & PermissionList { padding: 1 0 0 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close", show=False, id="permissions.close"),
        Binding("up,k", "move(-1)", "row above", show=False, id="permissions.up"),
        Binding("down,j", "move(1)", "row below", show=False, id="permissions.down"),
        Binding("pageup,b", "page(-1)", "a page up", show=False, id="permissions.page_up"),
        Binding("pagedown,space", "page(1)", "a page down", show=False, id="permissions.page_down"),
        Binding("tab", "other_part", "rules or decisions", show=False, id="permissions.part"),
        Binding("enter", "show", "all of the marked one", show=False, id="permissions.show"),
        Binding("x", "revoke", "revoke the marked rule", show=False, id="permissions.revoke"),
        Binding("n", "new", "write a new rule", show=False, id="permissions.new"),
        Binding("p", "propose", "make a rule of the marked decision", show=False, id="permissions.propose"),
    ]
    AUTO_FOCUS = ""

    def __init__(self, client: SessionClient, stage: Stage) -> None:
        super().__init__()
        self._client = client
        self._stage = stage
        self._known: object = None
        self._title = TitleRow("Permissions")
        self._list = PermissionList()
        self._hints = HintRow(
            ["Esc closes", "Enter all of it", "x revokes", "n new rule", "p rule of a decision", "Tab next part"]
        )

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._list
        yield self._hints

    async def on_mount(self) -> None:
        await self._refresh()
        self.set_interval(_LOOK, self._look)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        self._hints.tell("")
        self._list.move(step)

    def action_page(self, direction: int) -> None:
        self._hints.tell("")
        self._list.page(direction)

    def action_other_part(self) -> None:
        self._hints.tell("")
        self._list.other_part()

    def action_show(self) -> None:
        if (entry := self._list.marked) is not None and isinstance(entry, RuleEntry | DecisionEntry):
            self.app.push_screen(PermissionPage(entry))

    async def action_revoke(self) -> None:
        match self._list.marked:
            case RuleEntry(rule) if rule.origin in ("session", "saved"):
                await self._revoke(rule)
            case RuleEntry(rule):
                self._hints.tell(_elsewhere(rule))
            case _:
                self._hints.tell("x revokes a rule; Tab goes to the rules")

    def action_new(self) -> None:
        self._write("New rule", "")

    def action_propose(self) -> None:
        match self._list.marked:
            case DecisionEntry(row) if row.proposal:
                self._write("A rule of this decision", row.proposal)
            case DecisionEntry():
                self._hints.tell("no rule can be made of this one; n writes one")
            case _:
                self._hints.tell("p makes a rule of a decision; Tab goes to the decisions")

    async def _revoke(self, rule: Rule) -> None:
        refused = await self._client.finish(RevokeRule(rule))
        await self._refresh()
        self._hints.tell(f"asked about again: {rule}" if refused is None else refused.reason)

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
        """Something that differs once there may be other rules or decisions."""
        now = self._stage.status.now
        try:
            return self._stage.desk.waiting, now.phase, now.batch, self._client.rules
        except CodeagentError:
            return None

    async def _refresh(self) -> None:
        try:
            await self._load()
        except CodeagentError as error:
            self._hints.tell(str(error))

    async def _load(self) -> None:
        """Raises CodeagentError."""
        self._known = self._moment()
        rules, decisions = self._client.rules, await self._client.decisions()
        self._list.show(entries_of(rules, decisions))
        self._title.tell(f"{_count(len(rules), 'rule')} · {_count(len(decisions), 'decision')}")


def _elsewhere(rule: Rule) -> str:
    """Where a rule is taken out that the screen cannot revoke."""
    match rule.origin:
        case "flag":
            return "it came with the command line, and ends with this process"
        case "project":
            return f"it stands in the project's {PROJECT_FILE}: take it out there"
        case _:
            return f"it stands in {user_config_file()}: take it out there"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
