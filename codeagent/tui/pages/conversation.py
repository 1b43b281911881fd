"""The parts of a chat screen that are not in its first frame: everything but header, composer and
status line."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.widget import AwaitMount, Widget

from codeagent.core.errors import CodeagentError
from codeagent.core.extension import Reference, resolved
from codeagent.tui.actions import Action
from codeagent.tui.commands import NOT_RUN, OWN, ActionTable, mistyped, prompt_row, table_with
from codeagent.tui.drafts import Draft
from codeagent.tui.keymap import keymap_of
from codeagent.tui.launcher import LaunchOptions
from codeagent.tui.pages.attention import AttentionWatch
from codeagent.tui.pages.cards import ChatCard
from codeagent.tui.pages.outbox import Outbox
from codeagent.tui.parts.composer import Composer
from codeagent.tui.parts.composer_area import ComposerArea
from codeagent.tui.parts.find_bar import FindBar
from codeagent.tui.parts.queued import QueueView
from codeagent.tui.parts.status import greeting
from codeagent.tui.parts.todo import TodoView
from codeagent.tui.parts.typed_input import TypedInput, UnknownInput, parse_input
from codeagent.tui.rendering.markdown import warm_up
from codeagent.tui.state import UiState
from codeagent.tui.transcript.view import TranscriptView

if TYPE_CHECKING:  # it loads pydantic, which would delay the first keys
    from codeagent.core.runtime import OfferedText, TextKind
    from codeagent.tui.session_client import SessionClient

_PAUSE = 0.1
"""Seconds without a key after which the attachments of the text are shown."""
_LEAVES = 0.05
"""Seconds that a prompt which waited for the start has to leave, once the start is complete."""


class ConversationParts:
    """The parts above the composer, and the outbox."""

    def __init__(
        self,
        state: UiState,
        draft: Draft,
        clock: Callable[[], float],
        typed_at: Callable[[], float],
        make_view: Callable[..., TranscriptView] = TranscriptView,
    ) -> None:
        """`clock` gives seconds since the epoch; `typed_at` says when the user last typed, see
        `SheetView`, which `make_view` makes."""
        self._state = state
        self.outbox = Outbox(state, draft)
        self.view = make_view(state.document, clock=clock, typed_at=typed_at)
        self.find_bar = FindBar(self.view)
        self.card = ChatCard(state, self.outbox, now=clock)
        self.queue = QueueView(state.queue)
        self._attention = AttentionWatch(state)
        self._todo = TodoView(state.status)
        self._table = OWN
        self._beside: tuple[Reference, ...] = ()
        """What extensions run beside the conversation."""
        self._offers: tuple[Reference, ...] = ()
        """What extensions offer besides their commands."""
        self._pastes: Reference = ""
        """Of the extension that turns pasted text into mentions."""
        self._offered: dict[Reference, tuple[Action, ...]] = {}
        self._trouble = ""
        """Why something could not be offered, as it was reported last."""
        self._prompts: tuple[Action, ...] = ()
        self._resources: tuple[str, ...] = ()
        self._warm = False
        self._placed: AwaitMount | None = None

    def place(self, header: Widget, foot: Widget) -> None:
        """Mount the view below the header, and the others at the top of the foot."""
        header.screen.mount(self.view, after=header)
        self._placed = foot.mount(self.find_bar, self._todo, self.card, self.queue, before=0)
        foot.watch(self.view, "has_focus", self._read, init=False)

    def _read(self, focused: bool) -> None:
        keys = keymap_of(self.view).shown
        said = (
            f"{keys('transcript.leave')} back to typing",
            f"{keys('transcript.open')} opens",
            f"{keys('transcript.next')} {keys('transcript.previous')} calls",
            f"{keys('transcript.output')} output",
            f"{keys('transcript.copy')} copies",
        )
        self._state.status.set(reading=said if focused else ())

    async def find(self, text: str) -> None:
        """Open the search as soon as it is mounted; keys pressed until then are typed into it."""
        if self._placed is not None:
            await self._placed
        self.find_bar.open(text)

    async def warm_up(self) -> None:
        """Load the code that renders an answer, once, while the model thinks; in a thread, so that
        keys still work."""
        if not self._warm:
            self._warm = True
            await asyncio.to_thread(warm_up)

    async def warm_up_when_sent(self) -> None:
        """Do the same, once a prompt that was sent during the start has left: that needs imports of
        its own."""
        if self.outbox.holds:
            with suppress(CodeagentError):
                await (await self.outbox.ready()).start_up()
            await asyncio.sleep(_LEAVES)
        await self.warm_up()

    async def begin(self, client: "SessionClient | None", refused: str, composer: Composer) -> None:
        """Begin the outbox, see `Outbox.begin`; a `/` that was typed before that is answered now."""
        await self.outbox.begin(client, refused)
        if composer.awaits_commands:
            await self.offer_commands(composer)

    async def meet_extensions(self, client: "SessionClient") -> ActionTable:
        """Return the table of actions with those of the extensions that are on. Raises
        ConfigError."""
        extensions = await client.extensions()
        self._table = table_with(extensions.on, extensions.off)
        self._beside = tuple(each.screen.beside for each in extensions.on if each.screen.beside)
        self._pastes = next(filter(None, (each.screen.pastes for each in extensions.on)), "")
        self._offers = tuple(
            extension.screen.offers for extension in extensions.on if extension.screen.offers
        )
        await self._attention.begin(self.view.app, client)
        return self._table

    async def run_beside(self, chat: object) -> None:
        """Run what extensions have beside the conversation of this screen, once it has started."""
        with suppress(CodeagentError):
            await (await self.outbox.ready()).start_up()
            await asyncio.sleep(_LEAVES)
            await asyncio.gather(*(resolved(reference)(chat) for reference in self._beside))

    def end(self) -> None:
        """Leave the terminal to the next conversation."""
        self._attention.end()

    async def offer_more(self, composer: Composer) -> None:
        """Offer what extensions have for this workspace along with the commands."""
        with suppress(CodeagentError):  # without a conversation, nothing is offered
            await self.outbox.ready()
        for reference in self._offers if self.outbox.client else ():
            try:
                self._offered[reference] = await resolved(reference)(self.outbox.client)
            except CodeagentError as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    self._state.document.remark(self._trouble, "warning")
        self._offer(composer)

    def _offer(self, composer: Composer) -> None:
        offered = (row for rows in self._offered.values() for row in rows)
        composer.set_commands((*self._table.commands, *offered, *self._prompts))

    async def offer_commands(self, composer: Composer) -> None:
        """Offer what extensions have for this workspace, then the prompts that servers have now.

        Nothing of it is read before the first `/`.
        """
        await self.offer_more(composer)
        prompts = tuple(map(prompt_row, await self._texts("prompt")))
        if prompts != self._prompts:
            self._prompts = prompts
            self._offer(composer)

    async def offer_files(self, composer: Composer) -> None:
        """Offer the current files with the known resources, and then again with those that servers
        have now."""
        if (client := self.outbox.client) is None:
            return
        files = await client.launcher.files()
        composer.set_files((*files, *self._resources))
        self._resources = tuple(text.name for text in await self._texts("resource"))
        composer.set_files((*files, *self._resources))

    def show_attached(self, text: str, area: ComposerArea) -> None:
        """Show the attachments of the text, once nothing was typed for a moment."""
        if "@" in text or area.shows_attached:
            self.view.run_worker(self._attach(text, area), group="attached", exclusive=True)

    async def _attach(self, text: str, area: ComposerArea) -> None:
        client = self.outbox.client
        if "@" not in text or client is None or not client.started:
            area.attach(())
            return
        await asyncio.sleep(_PAUSE)
        found = await client.agent.mentioned(text)
        attached = () if found.note is None else found.note.attached
        area.attach([(one.name, one.about) for one in attached], found.refusal)

    async def mention_of(self, text: str | None) -> str:
        """Return what an extension inserts in place of a pasted text, or for the image on the
        clipboard; empty: nothing."""
        if not self._pastes or (client := self.outbox.client) is None:
            return ""
        meant: str = await resolved(self._pastes)(client.launcher.workspace, text)
        return meant

    async def _texts(self, kind: "TextKind") -> tuple["OfferedText", ...]:
        """Return what servers offer; nothing while the conversation is starting."""
        client = self.outbox.client
        if client is None or not client.started:
            return ()
        return await client.agent.texts(kind)

    async def look_for(self, text: str, composer: Composer) -> TypedInput | None:
        """Return what the text means if an extension offers its command; else say what it may have
        meant, and return None."""
        await self.offer_more(composer)
        meant = parse_input(text, composer.commands)
        if isinstance(meant, UnknownInput):
            said = mistyped(text, composer.commands, self._table.switched_off)
            self._state.status.set(notice=f"{said} · {NOT_RUN}")
            return None
        return meant

    def greet(self, options: LaunchOptions, workspace: Path, key: str) -> None:
        """Greet in a new session with what is known of it so far; a continued one already has a
        beginning.

        `key` is the key that shows all keys.
        """

        def say() -> None:
            self._state.document.greet(greeting(self._state.status.now, workspace, key))

        if options.resume is None:
            self._state.status.watch(say)
            say()


async def open_conversation(
    app: App[Any], client: "SessionClient", options: LaunchOptions
) -> LaunchOptions | None:
    """Open it, asking for what is missing. Returns the options it was opened with in the end, or
    None if the user left.

    Call it from a worker. Raises CodeagentError.
    """
    while (missing := await client.open(options)) is not None:
        from codeagent.tui.pages.opening import ask  # pages that most starts do not need

        following = await ask(app, client, options, missing)
        if following is None:
            return None
        options = following
    return options
