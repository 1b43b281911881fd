"""The composer: where the user types, what its keys do, and how sent text is understood."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from os.path import commonprefix
from typing import Literal

from rich.text import Text
from textual import work
from textual.actions import SkipAction
from textual.events import Blur, Key
from textual.message import Message
from textual.widgets.text_area import EditResult

from codeagent.core.dataclass import dataclass
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.sanitize import on_one_line
from codeagent.tui.actions import Action
from codeagent.tui.bindings import bindings
from codeagent.tui.fuzzy import PathIndex
from codeagent.tui.parts.prompt_text import harmless
from codeagent.tui.parts.suggestions import (
    ChoiceList,
    Completion,
    HistorySearch,
    Unfinished,
    command_choices,
    file_choices,
    input_choices,
    unfinished_at,
)
from codeagent.tui.parts.typed_input import (
    CommandInput,
    PromptInput,
    ShellInput,
    TypedInput,
    UnknownInput,
    find_command,
    parse_input,
)
from codeagent.tui.parts.vim_prompt import VimPrompt
from codeagent.tui.prompt_history import HistoryWalk, PromptHistory
from codeagent.tui.rendering.palette import palette_of

_PATH = lazy_regex(r"['\"]?(file://)?/[^\n]{1,4000}\n?\Z")
"""What a terminal pastes for a file that is dropped on it."""
_MENTION = lazy_regex(r"(?<![^\s(\[{'\"])@(?:\"([^\"\n]+)\"|([^\s\"]+?)(?=[:\s]|\Z))")
"""A file that a prompt names, without its lines."""
_RECENT = 200
"""Earlier prompts in which recently used files are looked for."""
_PAUSE = 0.03
"""Seconds without a key after which files are searched."""


class Composer(VimPrompt):
    """Posts what the user wants as messages; sent text is in the history before its message is
    posted."""

    BINDINGS = bindings("composer")

    @dataclass
    class Submitted(Message):
        """The complete text that was sent; an empty prompt if nothing was typed."""

        meant: TypedInput

    @dataclass
    class Wanted(Message):
        """The user wants something from the screen.

        card, end: Tab or End in an empty composer. take_back: Up in an empty composer while
        something is queued. editor: continue in the user's editor. files: the first `@` of a
        prompt, and every `@` until `set_files` was called. commands: the first `/` of a prompt;
        `set_commands` is called in answer. keys: `?` in an empty composer.
        """

        what: Literal["card", "end", "take_back", "editor", "files", "commands", "keys"]

    def __init__(self, history: PromptHistory, *, commands: Sequence[Action] = ()) -> None:
        super().__init__()
        self.choices = ChoiceList()
        """The list of completions; directly above the composer in the layout."""
        self.search = HistorySearch()
        """The search of the history; directly above the composer in the layout."""
        self.commands = commands
        self.awaits_commands = False
        """`set_commands` is to be called: there may be more than `commands`."""
        self.running = False
        """The agent is working: Tab queues what is typed."""
        self.has_queue = False
        """Something can be taken back with Up."""
        self.keeps: Callable[[bool], bool] = lambda later: False
        """Asked before text is sent, `later` or now: whether it stays here, because the user is
        asked about it."""
        self.mention_of: Callable[[str | None], Awaitable[str]] | None = None
        """Returns the mention to insert in place of a pasted text, or for the image on the clipboard
        (None); empty: it is not a path, or there is no image."""
        self._looking = 0
        """How many pastes are being looked at: what they bring goes with the text."""
        self._send_then: bool | None = None
        """Whether the text is to be sent then, `later` or now."""
        self._marked: Sequence[str] = ()
        self._prompts = history
        self._walk: HistoryWalk | None = None
        self._paths: tuple[str, ...] = ()
        self._files: PathIndex | None = None
        self._asked: set[Literal["files", "commands"]] = set()
        """The lists that were asked for since the last prompt was sent."""
        self._word: Unfinished | None = None
        self._searched: Unfinished | None = None
        """The query that the offered files match."""
        self._shown = ""
        """Text that was not typed: it came from the history, the queue or an editor."""
        self._chord = False

    def clear(self) -> EditResult:
        """Empty the composer; undo restores the text."""
        self._walk = None
        return super().clear()

    def _take_in(self, text: str) -> None:
        """Insert foreign text; a path that was dropped becomes what it stands for."""
        super()._take_in(text)
        if self.mention_of is not None and _PATH.match(text):
            self._look_at(self.mention_of(text), text)

    def action_paste(self) -> None:
        """Paste the image on the clipboard, or else what was copied in this app."""
        if self.mention_of is None:
            super().action_paste()
        else:
            self._look_at(self.mention_of(None), None)

    def _look_at(self, asked: Awaitable[str], text: str | None) -> None:
        self._looking += 1
        self._take_meant(asked, text)

    @work(group="paste")
    async def _take_meant(self, asked: Awaitable[str], text: str | None) -> None:
        try:
            self._put(await asked, text)
        finally:
            self._looking -= 1
        if not self._looking and (later := self._send_then) is not None:
            self._send_then = None
            self.send(later=later)

    def _put(self, meant: str, text: str | None) -> None:
        if text is None:
            gap = self._gap_at(*min(self.selection))
            super()._take_in(f"{gap}{meant} " if meant else self.app.clipboard)
        elif meant and (at := self.typed.rfind(shown := harmless(text).rstrip("\n"))) >= 0:
            gap = self._gap_at(*self._place(at))
            self.replace(f"{gap}{meant} ", self._place(at), self._place(at + len(shown)))

    def _gap_at(self, row: int, column: int) -> str:
        """Return the space that a mention there needs before it: within a word it is only text."""
        before = self.document.get_line(row)[:column]
        return "" if not before or before[-1].isspace() or before[-1] in "([{'\"" else " "

    def mark_mentions(self, names: Sequence[str]) -> None:
        """Highlight these names after an `@`: they are attachments."""
        self._marked = names
        self.notify_style_update()
        self.refresh()

    def get_line(self, line_index: int) -> Text:
        content = super().get_line(line_index)
        if self._marked:
            words = [f"@{quote}{name}{quote}" for name in self._marked for quote in ("", '"')]
            content.highlight_words(words, palette_of(self).accent)
        return content

    def _show(self, typed: str) -> None:
        """Show text from elsewhere without opening a list: Up and Enter act on the text."""
        super()._show(typed)
        self._walk = None
        self._shown = self.typed
        self._word = self._searched = self._unfinished()
        self._close_choices()

    @property
    def last_typed(self) -> float:
        """When the user last typed, here or in the search, on the clock of `time.monotonic`."""
        return max(self.typed_at, self.search.typed_at)

    @property
    def closes_first(self) -> bool:
        return self.choices.is_open

    def set_edited(self, before: str, after: str) -> None:
        """Show the edited version of `before`; text that was added to the composer meanwhile, in
        front of it or within, stays in front of it."""
        text = self.text
        meanwhile = text.removesuffix(before)
        at = len(commonprefix((text, before)))  # noqa: RUF071  # the same characters, not folders
        if meanwhile == text and text.endswith(before[at:]):
            meanwhile = text[at : len(text) - len(before) + at].strip()
        self.set_text(after)
        self.insert_back(meanwhile.removesuffix("\n"))

    def set_commands(self, commands: Sequence[Action]) -> None:
        """Set the commands that `/` offers."""
        self.commands = commands
        self.awaits_commands = False
        word = self._word
        if word is None or word.kind == "file" or word == self._searched or self.choices.moved:
            return
        self._offer()

    def set_files(self, paths: Sequence[str]) -> None:
        """Set what `@` offers: paths (directories end with a slash) and the resources of
        servers."""
        if self._files is None or self._paths != tuple(paths):
            self._paths = tuple(paths)
            self._index(self._paths)

    @work(group="index", exclusive=True)
    async def _index(self, paths: tuple[str, ...]) -> None:
        self._files = await asyncio.to_thread(PathIndex, paths)
        if (
            self.choices.is_open
            and not self.choices.moved
            and self._word is not None
            and self._word.kind == "file"
        ):
            self._offer_files()

    async def _on_key(self, event: Key) -> None:
        if self._chord:
            self._chord = False
            if event.key == "ctrl+e":
                event.stop()
                event.prevent_default()
                self.action_edit_outside()

    def action_begin_chord(self) -> None:
        self._chord = True

    def action_ask_for_keys(self) -> None:
        self.post_message(self.Wanted("keys"))

    def action_newline(self) -> None:
        """Break the line at the cursor."""
        self._replace_via_keyboard("\n", *self.selection)

    def action_send(self) -> None:
        """Send the text, choose the offered completion, or break the line after a backslash."""
        if self._chooses_on_enter:
            self._choose()
            return
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if self.selection.is_empty and column == len(line) and line.endswith("\\"):
            self._replace_via_keyboard("\n", (row, column - 1), (row, column))
            return
        self.send(later=False)

    def action_follow_up(self) -> None:
        """Send the text for when the agent is done."""
        self.send(later=True)

    def send(self, *, later: bool) -> None:
        """Send the text: now, or for when the agent is done; not before it has what was pasted."""
        if self._looking:
            self._send_then = later
            return
        if self.keeps(later):
            return
        expand = self._chips.expand
        match parse_input(self.typed, self.commands):
            case None:
                if not later:
                    self.post_message(self.Submitted(PromptInput("")))
                return
            case UnknownInput(text):
                meant: TypedInput = UnknownInput(expand(text))
            case CommandInput(row, arguments):
                meant = CommandInput(row, expand(arguments))
            case ShellInput(command, shared):
                meant = ShellInput(expand(command), shared)
            case PromptInput(text):
                meant = PromptInput(expand(text), later)
        self._prompts.add(self.text.strip("\n"))
        self._walk = None
        self._asked.clear()
        self.post_message(self.Submitted(meant))
        self.forget()

    def action_complete(self) -> None:
        """Handle Tab: choose the offered completion, queue the text while the agent is working, or
        go to the card."""
        self._keep_up()
        if self.choices.is_open and self.choices.chosen:
            self._choose()
        elif self.is_blank:
            self.post_message(self.Wanted("card"))
        elif self.running:
            self.action_follow_up()
        else:
            self._searched = None
            self._offer()
            self._keep_up()

    def action_up(self) -> None:
        if self.choices.is_open:
            self.choices.move(-1)
        elif self.is_blank and self.has_queue:
            self.post_message(self.Wanted("take_back"))
        elif self.wrapped_document.location_to_offset(self.cursor_location).y > 0:
            self.action_cursor_up()
        else:
            self._walk = self._walk or HistoryWalk(self._prompts.entries)
            self._show_walked(self._walk.older(self.typed))

    def action_cursor_line_end(self, select: bool = False) -> None:
        """Handle End: in an empty composer, it is for the card."""
        if self.is_blank:
            self.post_message(self.Wanted("end"))
        else:
            super().action_cursor_line_end(select)

    def action_down(self) -> None:
        if self.choices.is_open:
            self.choices.move(1)
        elif self._walk is None or self._below:
            self.action_cursor_down()
        else:
            self._show_walked(self._walk.newer(self.typed))

    @property
    def _below(self) -> bool:
        """Whether there is a row below the cursor's."""
        row = self.wrapped_document.location_to_offset(self.cursor_location).y
        return row < self.wrapped_document.height - 1

    def _show_walked(self, text: str | None) -> None:
        """Show a prompt of the history; the text being typed returns with its chips."""
        walk = self._walk
        if text is None or walk is None:
            return
        self._show(text if walk.at_typed else self._given(text))
        self._walk = walk

    def action_close_choices(self) -> None:
        """Handle Esc: close the list; if none is open, leave the key to others."""
        if not self.choices.is_open:
            raise SkipAction()
        self._searched = self._word
        self._close_choices()

    def _close_choices(self) -> None:
        self.choices.close()

    def action_search_history(self) -> None:
        """Handle Ctrl+R: search earlier prompts in a list above."""
        self._close_choices()
        self.search.open(self._prompts.search)

    def end_search(self, closed: HistorySearch.Closed) -> None:
        """Use the prompt that was found, and take the focus back."""
        if closed.took_focus:
            self.focus()
        if closed.text is not None:
            self.set_text(closed.text)

    def action_edit_outside(self) -> None:
        """Continue in the editor of `$VISUAL` or `$EDITOR`."""
        self.post_message(self.Wanted("editor"))

    def on_text_area_changed(self) -> None:
        if self.typed != self._shown or not self.typed:
            self._shown = ""
            self._offer()

    def on_text_area_selection_changed(self) -> None:
        if self._word is not None and self._unfinished() != self._word:
            self._offer()

    def on_blur(self, event: Blur) -> None:
        self._close_choices()

    def _unfinished(self) -> Unfinished | None:
        row, column = self.cursor_location
        if self.vim_mode in ("normal", "visual"):
            return None
        if not self.selection.is_empty or row >= self.document.line_count:
            return None
        return unfinished_at(self.document.get_line(row), row, column)

    def _offer(self) -> None:
        """Open, change or close the list for the word in front of the cursor."""
        before, word = self._word, self._unfinished()
        self._word = word
        if word is None or not self.has_focus:
            self._close_choices()
        elif word.kind == "command":
            self._want("commands")
            self.choices.offer(command_choices(word.query, self.commands))
        elif word.kind == "input":
            self.choices.offer(input_choices(word, self.commands))
        else:
            if before is None or (before.kind, before.start) != (word.kind, word.start):
                if self._files is None:
                    self._asked.discard("files")
                self._want("files")
            if self._files is None:
                self.choices.offer((), footer="looking for files…")
            else:
                self._search_files(word)

    def _want(self, what: Literal["files", "commands"]) -> None:
        if what not in self._asked:
            self._asked.add(what)
            self.awaits_commands |= what == "commands"
            self.post_message(self.Wanted(what))

    @work(group="files", exclusive=True)
    async def _search_files(self, word: Unfinished) -> None:
        await asyncio.sleep(_PAUSE)
        if self._files is None:
            return
        found = await asyncio.to_thread(self._files.search, word.query)
        if word == self._word and word != self._searched:
            self._offer_paths(word, found)

    def _offer_files(self) -> None:
        """Search now: the files have just arrived, or a key would choose before the pause is
        over."""
        if self._word is not None and self._files is not None:
            self._offer_paths(self._word, self._files.search(self._word.query))

    def _offer_paths(self, word: Unfinished, paths: Sequence[str]) -> None:
        self._searched = word
        paths = self._recent_first(paths, word.query)
        self.choices.offer(() if word.query in paths else file_choices(paths))

    def _recent_first(self, paths: Sequence[str], query: str) -> Sequence[str]:
        """Put those first that contain the query and that earlier prompts name, the latest first;
        without a query, others that are named as well."""
        wanted = query.casefold()
        known = (
            [name for name in paths if wanted in name.casefold()] if query else self._files or ()
        )
        earlier = "\n".join(reversed(self._prompts.entries[-_RECENT:]))
        named = (quoted or bare for quoted, bare in _MENTION.findall(earlier))
        return tuple(dict.fromkeys((*(name for name in named if name in known), *paths)))

    @property
    def _chooses_on_enter(self) -> bool:
        """Whether Enter chooses the offered completion: it does unless the typed text is already
        complete, or may be once all commands are known."""
        self._keep_up()
        word = self._word
        if word is None or self.choices.chosen is None:
            return False
        if word.kind == "file" or self.choices.moved:
            return True
        complete = self.awaits_commands or find_command(word.query, self.commands)
        return word.kind == "command" and not complete

    def _keep_up(self) -> None:
        """Update the list before a key is handled: keys may be faster than change messages and file
        searches."""
        if self._unfinished() != self._word:
            self._offer()
        if self._word is not None and self._word.kind == "file" and self._word != self._searched:
            self._offer_files()

    def _choose(self) -> None:
        if (choice := self.choices.chosen) is not None:
            self.take(choice)

    def take(self, choice: Completion) -> None:
        """Replace the unfinished word with a choice."""
        if self._word is None:
            return
        row, column = self.cursor_location
        self._replace_via_keyboard(
            on_one_line(choice.insert), (row, self._word.start), (row, column)
        )
        self.focus()
