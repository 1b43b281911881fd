"""A panel to write a rule that allows calls, checked while it is typed, for this session or
kept."""

from collections.abc import Awaitable, Callable

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.policy import Rule
from codeagent.tui.bindings import bindings
from codeagent.tui.keymap import keymap_of
from codeagent.tui.pages.page import Panel
from codeagent.tui.parts.guard import TOO_SOON
from codeagent.tui.parts.line_input import LineInput
from codeagent.tui.parts.rows import HintRow, RowWidget, TitleRow
from codeagent.tui.rendering.lines import Line, cut_end, flat, line
from codeagent.tui.rendering.palette import Palette

Allow = Callable[[str, bool], Awaitable[None]]
"""Called with the rule and whether to keep it. Raises CodeagentError if the rule is refused."""


class _Said(RowWidget):
    """One line about the typed rule."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self._wrong = False

    def tell(self, text: str, *, wrong: bool) -> None:
        self._text = flat(text)
        self._wrong = wrong
        self.refresh()

    def row(self, width: int, palette: Palette) -> Line:
        style = palette.error if self._wrong else palette.muted
        return line([("   ", None), (cut_end(self._text, width - 4), style)])


class _Scope(RowWidget):
    """The row that says how long the rule will hold."""

    kept = False

    def row(self, width: int, palette: Palette) -> Line:
        chosen = "in this folder, in later sessions too" if self.kept else "for this session"
        other = "for this session only" if self.kept else "in later sessions too"
        text = f"   holds {chosen}"
        rest = cut_end(
            f"   {keymap_of(self).shown('rule.scope')}: {other}", width - cell_len(text) - 1
        )
        return line([(text, palette.strong), (rest, palette.muted)])


class RuleEditor(Panel[str]):
    """Covers the lower rows until the rule was accepted. Returns what was done, None after Esc."""

    BINDINGS = bindings("rule")

    def __init__(self, title: str, rule: str, allow: Allow) -> None:
        """`rule` is the text to start from; Enter is ignored until it could be read."""
        super().__init__()
        self._title = title
        self._line = LineInput(
            rule, placeholder="bash(git log *)", compact=True, select_on_focus=False
        )
        self._allow = allow
        self._said = _Said()
        self._scope = _Scope()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TitleRow(self._title)
            yield self._line
            yield self._said
            yield self._scope
            hints = ("{rule.take} adds it", "{rule.close} closes", "{rule.scope} how long it holds")
            yield HintRow(hints)

    def on_mount(self) -> None:
        self._line.focus()
        self._check(self._line.value)

    def action_scope(self) -> None:
        self._scope.kept = not self._scope.kept
        self._scope.refresh()

    async def action_take(self) -> None:
        text, kept = self._line.value.strip(), self._scope.kept
        if not self._check(text):
            return
        if not self.guard.admits("enter"):
            self._said.tell(TOO_SOON, wrong=True)
            return
        try:
            await self._allow(text, kept)
        except CodeagentError as error:
            self._said.tell(str(error), wrong=True)
            return
        self.dismiss(f"allowed {'in this folder' if kept else 'for this session'}: {text}")

    @on(LineInput.Changed)
    def _changed(self, message: LineInput.Changed) -> None:
        self._check(message.value)

    def _check(self, text: str) -> bool:
        """Say what the rule would do; False if it is not a valid rule."""
        if not text.strip():
            self._said.tell("write tool(pattern); * stands for anything", wrong=False)
            return False
        try:
            rule = Rule.parse(text, "auto", "session")
        except ConfigError as error:
            self._said.tell(str(error), wrong=True)
            return False
        if rule.pattern is None:
            self._said.tell(
                f"that would allow every call of {rule}; write {rule}(pattern)", wrong=True
            )
            return False
        self._said.tell(
            f"you are not asked about {rule.tool} if the whole call matches {rule.pattern}",
            wrong=False,
        )
        return True
