"""The one table of what every key does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """Something a key does."""

    id: str
    """`scope.name`; the Bindings of Textual that do it have this id."""
    keys: tuple[str, ...]
    """By default, as Textual spells them."""
    about: str
    """One line for a person."""

    @property
    def scope(self) -> str:
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Typed:
    """What is typed rather than bound, and cannot be changed."""

    scope: str
    keys: str
    about: str


SCOPES = {
    "chat": "Anywhere",
    "composer": "Writing",
    "history": "Searching what you wrote",
    "card": "Approval card: after Tab, or with Alt",
    "boundary": "A paused run: after Tab, or with Alt",
    "plan": "A plan that is ready: after Tab, or with Alt",
    "find": "Finding in the conversation",
    "transcript": "Conversation: after Tab in an empty line",
    "picker": "Lists",
    "page": "Pages and whole outputs",
    "queue": "What waits to be read: /queue",
    "rewind": "Going back, where something would be lost",
    "question": "Questions before the start",
}
"""Every scope, in the order of the key sheet, with its heading."""

ACTIONS = (
    Action("chat.pause", ("escape",), "close what is open, else pause at the next boundary; twice: stop now"),
    Action("chat.cancel", ("ctrl+c",), "copy the selection, else stop, else clear; twice within 2 s: quit"),
    Action("chat.quit", ("ctrl+d",), "quit, when nothing is written"),
    Action("chat.suspend", ("ctrl+z",), "back to the shell; fg returns"),
    Action("chat.redraw", ("ctrl+l",), "draw the screen again"),
    Action("chat.mode", ("shift+tab",), "mode: ask, accept edits, plan"),
    Action("chat.detail", ("ctrl+o",), "detail: quiet, normal, full"),
    Action("chat.find", ("ctrl+f",), "find in the conversation"),
    Action("chat.page_up", ("pageup",), "a page of the conversation up"),
    Action("chat.page_down", ("pagedown",), "a page of the conversation down"),
    Action("chat.to_start", ("ctrl+home",), "to the start of the conversation"),
    Action("chat.to_end", ("ctrl+end",), "to its end, and follow it"),
    Action("chat.palette", ("ctrl+p",), "command palette"),
    Action("chat.keys", ("f1",), "this sheet"),
    Action("composer.send", ("enter",), "send; while the agent works: steer it"),
    Action("composer.follow_up", ("alt+enter",), "send when the agent is done"),
    Action("composer.newline", ("shift+enter", "ctrl+j"), "new line"),
    Action("composer.history", ("ctrl+r",), "search what you wrote before"),
    Action("composer.editor", ("ctrl+g",), "write in $EDITOR"),
    Action("composer.keys", ("question_mark",), "when nothing is written: this sheet"),
    Action("composer.complete", ("tab",), "complete; with text while the agent works: send when it is done"),
    Action("composer.up", ("up",), "line above; when empty: take back what was queued last, else earlier prompts"),
    Action("composer.down", ("down",), "line below, later prompts"),
    Action("composer.close_choices", ("escape",), "close the list of choices"),
    Action("composer.chord", ("ctrl+x",), "then Ctrl+E: write in your editor"),
    Action("composer.left", ("left",), "a character back"),
    Action("composer.right", ("right",), "a character on"),
    Action("composer.word_left", ("ctrl+left", "alt+left", "alt+b"), "a word back"),
    Action("composer.word_right", ("ctrl+right", "alt+right", "alt+f"), "a word on"),
    Action("composer.line_start", ("home", "ctrl+a"), "to the start of the line"),
    Action("composer.line_end", ("end", "ctrl+e"), "to the end of the line"),
    Action("composer.select_left", ("shift+left",), "select to the left"),
    Action("composer.select_right", ("shift+right",), "select to the right"),
    Action("composer.select_up", ("shift+up",), "select upwards"),
    Action("composer.select_down", ("shift+down",), "select downwards"),
    Action("composer.select_word_left", ("ctrl+shift+left",), "select a word back"),
    Action("composer.select_word_right", ("ctrl+shift+right",), "select a word on"),
    Action("composer.select_line_start", ("shift+home",), "select to the start of the line"),
    Action("composer.select_line_end", ("shift+end",), "select to the end of the line"),
    Action("composer.select_all", ("f7",), "select everything"),
    Action("composer.delete_left", ("backspace", "ctrl+h"), "delete to the left"),
    Action("composer.delete_right", ("delete", "ctrl+d"), "delete to the right"),
    Action("composer.kill_word", ("ctrl+w", "ctrl+backspace", "alt+backspace"), "cut the word before"),
    Action("composer.kill_word_right", ("alt+d", "alt+delete"), "cut the word behind"),
    Action("composer.kill_to_start", ("ctrl+u", "super+backspace"), "cut to the start of the line"),
    Action("composer.kill_to_end", ("ctrl+k",), "cut to the end of the line"),
    Action("composer.yank", ("ctrl+y",), "put back what was cut"),
    Action("composer.copy", ("ctrl+c", "super+c"), "copy what is selected"),
    Action("composer.cut", ("super+x",), "cut what is selected"),
    Action("composer.paste", ("ctrl+v",), "paste what was copied here"),
    Action("composer.undo", ("ctrl+underscore", "ctrl+shift+minus", "ctrl+slash", "super+z"), "undo"),
    Action("composer.redo", ("ctrl+shift+z", "shift+super+z"), "redo"),
    Action("history.take", ("enter", "tab"), "take it into the composer"),
    Action("history.leave", ("escape", "ctrl+c", "ctrl+g"), "back to what was written"),
    Action("history.older", ("up", "ctrl+r"), "an older one"),
    Action("history.newer", ("down", "ctrl+s"), "a newer one"),
    Action("history.delete", ("backspace", "ctrl+h"), "delete a letter"),
    Action("history.delete_all", ("ctrl+u", "ctrl+w"), "search anew"),
    Action("card.once", ("y",), "yes, once"),
    Action("card.session", ("a",), "yes, this call for the session"),
    Action("card.rule", ("p",), "yes, and what a rule allows: it stands ready, to be changed before Enter"),
    Action("card.keep", ("down", "up"), "while a rule is written: for this session, or always in this folder"),
    Action("card.edit", ("e",), "be asked about an edited call instead"),
    Action("card.hunks", ("h",), "answer a change hunk by hunk"),
    Action("card.deny", ("n",), "no"),
    Action("card.because", ("r",), "no, and say why"),
    Action("card.all", ("A",), "yes to the whole batch"),
    Action("boundary.go_on", ("c", "enter"), "go on"),
    Action("boundary.more", ("plus",), "go on, with as much again of a budget or limit"),
    Action("boundary.step", ("s",), "step mode: go on, and pause before the next batch"),
    Action("boundary.run_on", ("S",), "end step mode and go on"),
    Action("boundary.skip", ("x",), "skip the marked call"),
    Action("boundary.skip_because", ("X",), "skip it, and say why"),
    Action("boundary.edit", ("e",), "edit the marked call: its command here, other arguments in $EDITOR"),
    Action("boundary.up", ("up", "k"), "mark the call above"),
    Action("boundary.down", ("down", "j"), "mark the call below"),
    Action("plan.start", ("p",), "start the plan in the mode ask"),
    Action("plan.start_accepting", ("P", "a"), "start it in the mode accept-edits"),
    Action("plan.edit", ("e",), "edit it in $EDITOR; what you write is what is started"),
    Action("plan.keep", ("k",), "keep planning: put the card away"),
    Action("find.previous", ("up", "enter"), "match above"),
    Action("find.next", ("down", "shift+enter"), "match below"),
    Action("find.close", ("escape",), "end the search"),
    Action("transcript.next", ("n",), "next block or call"),
    Action("transcript.previous", ("p",), "block or call before"),
    Action("transcript.next_prompt", ("right_square_bracket",), "next prompt"),
    Action("transcript.previous_prompt", ("left_square_bracket",), "prompt before"),
    Action("transcript.open", ("enter",), "open or fold"),
    Action("transcript.output", ("o",), "the whole output of the call"),
    Action("transcript.copy", ("y", "c"), "copy the block"),
    Action("transcript.leave", ("escape",), "back to writing"),
    Action("picker.choose", ("enter",), "take the marked row"),
    Action("picker.close", ("escape", "ctrl+c"), "close, nothing changed"),
    Action("picker.up", ("up", "ctrl+p"), "row above"),
    Action("picker.down", ("down", "ctrl+n"), "row below"),
    Action("picker.page_up", ("pageup",), "a page up"),
    Action("picker.page_down", ("pagedown",), "a page down"),
    Action("page.close", ("escape", "q"), "close"),
    Action("page.find", ("slash",), "find"),
    Action("page.next", ("n",), "next match"),
    Action("page.previous", ("N",), "match before"),
    Action("page.copy", ("c", "ctrl+c"), "copy the selection, else everything"),
    Action("page.up", ("up", "k"), "a line up"),
    Action("page.down", ("down", "j"), "a line down"),
    Action("page.page_up", ("pageup", "b"), "a page up"),
    Action("page.page_down", ("pagedown", "space"), "a page down"),
    Action("page.home", ("home", "g"), "to the beginning"),
    Action("page.end", ("end", "G"), "to the end"),
    Action("queue.edit", ("e", "enter"), "edit the marked text"),
    Action("queue.later", ("J", "alt+down"), "read it later"),
    Action("queue.earlier", ("K", "alt+up"), "read it earlier"),
    Action("queue.take_back", ("x", "delete"), "take it back into the line you write in"),
    Action("queue.up", ("up", "k"), "text above"),
    Action("queue.down", ("down", "j"), "text below"),
    Action("queue.close", ("escape", "q", "ctrl+c"), "close"),
    Action("rewind.take_back", ("enter", "y"), "take it back"),
    Action("rewind.leave_mine", ("m",), "take it back, but leave the files you edited as they are"),
    Action("question.yes", ("y",), "yes"),
    Action("question.no", ("n", "enter", "escape", "ctrl+c"), "no"),
    Action("page.left", ("left",), "to the left"),
    Action("page.right", ("right",), "to the right"),
)

TYPED = (
    Typed("chat", "Esc Esc", "when nothing runs and nothing is written: go back to an earlier moment"),
    Typed("composer", "\\ Enter", "new line, where Shift+Enter does not arrive"),
    Typed("composer", "/", "commands"),
    Typed("composer", "@", "files"),
    Typed("composer", "!", "a shell command in the sandbox, shown to the model"),
    Typed("composer", "!!", "the same, not shown to the model"),
    Typed("card", "Up, Down, PgUp, PgDn", "scroll"),
    Typed("card", "t", "the change in one column or in two"),
    Typed("card", "Left, Right, Enter", "move to an answer, take it"),
    Typed("card", "1 to 9", "an answer to a question of the agent's"),
    Typed("boundary", "1 to 9", "mark that call"),
    Typed("picker", "any letter", "narrows the list"),
)
