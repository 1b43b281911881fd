"""The one table of what a user can do with a key; bindings, the key sheet and the check of a user's
own keys use it."""

from typing import Literal

from textual.binding import Binding, BindingType

from codeagent.core.dataclass import dataclass

Group = Literal["conversation", "model and money", "screen", "about"]


@dataclass(frozen=True)
class Action:
    """Something a user can do with a key, a slash command, or both: one row of the table."""

    id: str
    """`scope.name`, as in `keys.yaml` and in Textual's bindings; the name is also that of the slash
    command."""
    about: str
    """One line for a user, no full stop."""
    keys: tuple[str, ...] = ()
    """The default keys, as Textual spells them."""
    does: str = ""
    """What it runs: an action of the class that binds it, or a `module:function` of `tui.pages`. If
    empty, the action of the same name or, without keys, the function of that name in
    `pages.slash`."""
    on: str = ""
    """The class that binds it, if not every class of the scope does."""
    priority: bool = False
    """Its keys come before those of the focused widget."""
    approves: bool = False
    """It makes something run, so Enter or Space alone never triggers it."""
    while_writing: bool = False
    """It also works while the user types, although the scope is not one for typing."""
    group: Group | None = None
    """Its heading in /help; None if there is no slash command."""
    aliases: tuple[str, ...] = ()
    arguments: str = ""
    """What may follow the command, such as `[text]`."""
    inputs: tuple[tuple[str, str], ...] = ()
    """The inputs that may follow the command as `name=value`: name and description of each."""
    while_running: bool = True
    """The command can be used while the agent is working."""
    needs_conversation: bool = False
    """The command waits until there is a conversation."""
    same_as: str = ""
    """The command that does the same, if these keys mean more than one thing."""

    @property
    def scope(self) -> str:
        return self.id.partition(".")[0]

    @property
    def name(self) -> str:
        return self.id.partition(".")[2]

    @property
    def handler(self) -> str:
        """`does`, or the default for an empty one."""
        return self.does or (self.name if self.keys else f"slash:{self.name}")

    @property
    def pressed(self) -> str:
        """The Textual action that its keys run."""
        if ":" in self.handler:
            return f"command('{self.id}')"
        return self.handler


KEYS = (
    Action(
        "chat.pause",
        "close what is open, else pause at the next boundary; twice: stop now",
        ("escape",),
        "step_back",
        same_as="pause",
    ),
    Action(
        "chat.cancel",
        "copy the selection, else stop, else clear; twice within 2 s: quit",
        ("ctrl+c",),
        same_as="stop",
    ),
    Action(
        "chat.quit", "quit, when nothing is written", ("ctrl+d",), "quit_if_empty", same_as="exit"
    ),
    Action(
        "chat.suspend",
        "back to the shell; fg returns",
        ("ctrl+z",),
        "app.suspend_process",
        priority=True,
        group="screen",
    ),
    Action("chat.redraw", "redraw the screen", ("ctrl+l",), priority=True, group="screen"),
    Action(
        "chat.mode",
        "mode: ask, accept edits, plan",
        ("shift+tab",),
        "next_mode",
        priority=True,
        same_as="mode",
    ),
    Action(
        "chat.detail",
        "detail: quiet, normal, full",
        ("ctrl+o",),
        "next_detail",
        priority=True,
        group="screen",
    ),
    Action(
        "chat.jobs",
        "what runs in the background; read it, stop it, send it text",
        ("ctrl+t",),
        "running:jobs",
        priority=True,
        group="conversation",
        aliases=("ps",),
        arguments="[job [output|send TEXT]]",
    ),
    Action(
        "chat.background",
        "move the running command to the background, as a job",
        ("ctrl+b",),
        "running:background",
        priority=True,
        group="conversation",
        aliases=("bg",),
        arguments="[number]",
        needs_conversation=True,
    ),
    Action(
        "chat.find",
        "find in the conversation",
        ("ctrl+f",),
        priority=True,
        group="conversation",
        arguments="[text]",
    ),
    Action("chat.page_up", "a page up in the conversation", ("pageup",), "turn('page_up')"),
    Action("chat.page_down", "a page down in the conversation", ("pagedown",), "turn('page_down')"),
    Action(
        "chat.to_start",
        "to the start of the conversation",
        ("ctrl+home",),
        "turn('home')",
        priority=True,
    ),
    Action("chat.to_end", "to its end, and follow it", ("ctrl+end",), "turn('end')", priority=True),
    Action("chat.palette", "command palette", ("ctrl+p",), "slash:palette", priority=True),
    Action(
        "chat.keys",
        "what every key does",
        ("f1",),
        "slash:keys",
        priority=True,
        group="screen",
        aliases=("keymap",),
    ),
    Action("composer.send", "send; while the agent works: steer it", ("enter",)),
    Action("composer.follow_up", "send when the agent is done", ("alt+enter",)),
    Action("composer.newline", "new line", ("shift+enter", "ctrl+j")),
    Action(
        "composer.history",
        "search what you sent before",
        ("ctrl+r",),
        "search_history",
        group="conversation",
    ),
    Action(
        "composer.editor",
        "write in your editor: $VISUAL or $EDITOR",
        ("ctrl+g",),
        "edit_outside",
        group="conversation",
    ),
    Action(
        "composer.keys",
        "when nothing is written: this sheet",
        ("question_mark",),
        "ask_for_keys",
        same_as="keys",
    ),
    Action(
        "composer.complete",
        "complete; with text while the agent works: send when it is done",
        ("tab",),
    ),
    Action(
        "composer.up",
        "line above; when empty: edit what was queued last, else earlier prompts",
        ("up",),
    ),
    Action("composer.down", "line below, later prompts", ("down",)),
    Action("composer.close_choices", "close the list of choices", ("escape",)),
    Action("composer.chord", "then Ctrl+E: write in your editor", ("ctrl+x",), "begin_chord"),
    Action("composer.left", "a character back", ("left",), "cursor_left", on="PromptText"),
    Action("composer.right", "a character forward", ("right",), "cursor_right", on="PromptText"),
    Action(
        "composer.word_left",
        "a word back",
        ("ctrl+left", "alt+left", "alt+b"),
        "cursor_word_left",
        on="PromptText",
    ),
    Action(
        "composer.word_right",
        "a word forward",
        ("ctrl+right", "alt+right", "alt+f"),
        "cursor_word_right",
        on="PromptText",
    ),
    Action(
        "composer.line_start",
        "to the start of the line",
        ("home", "ctrl+a"),
        "cursor_line_start",
        on="PromptText",
    ),
    Action(
        "composer.line_end",
        "to the end of the line",
        ("end", "ctrl+e"),
        "cursor_line_end",
        on="PromptText",
    ),
    Action(
        "composer.select_left",
        "select to the left",
        ("shift+left",),
        "cursor_left(True)",
        on="PromptText",
    ),
    Action(
        "composer.select_right",
        "select to the right",
        ("shift+right",),
        "cursor_right(True)",
        on="PromptText",
    ),
    Action(
        "composer.select_up", "select upwards", ("shift+up",), "cursor_up(True)", on="PromptText"
    ),
    Action(
        "composer.select_down",
        "select downwards",
        ("shift+down",),
        "cursor_down(True)",
        on="PromptText",
    ),
    Action(
        "composer.select_word_left",
        "select a word back",
        ("ctrl+shift+left",),
        "cursor_word_left(True)",
        on="PromptText",
    ),
    Action(
        "composer.select_word_right",
        "select a word forward",
        ("ctrl+shift+right",),
        "cursor_word_right(True)",
        on="PromptText",
    ),
    Action(
        "composer.select_line_start",
        "select to the start of the line",
        ("shift+home",),
        "cursor_line_start(True)",
        on="PromptText",
    ),
    Action(
        "composer.select_line_end",
        "select to the end of the line",
        ("shift+end",),
        "cursor_line_end(True)",
        on="PromptText",
    ),
    Action("composer.select_all", "select everything", ("f7",), on="PromptText"),
    Action("composer.delete_left", "delete to the left", ("backspace", "ctrl+h"), on="PromptText"),
    Action(
        "composer.delete_right",
        "delete to the right",
        ("delete", "ctrl+d"),
        "delete_right_or_skip",
        on="PromptText",
    ),
    Action(
        "composer.kill_word",
        "cut the word before",
        ("ctrl+w", "ctrl+backspace", "alt+backspace"),
        "kill('word_left')",
        on="PromptText",
    ),
    Action(
        "composer.kill_word_right",
        "cut the word after",
        ("alt+d", "alt+delete"),
        "kill('word_right')",
        on="PromptText",
    ),
    Action(
        "composer.kill_to_start",
        "cut to the start of the line",
        ("ctrl+u", "super+backspace"),
        "kill('line_start')",
        on="PromptText",
    ),
    Action(
        "composer.kill_to_end",
        "cut to the end of the line",
        ("ctrl+k",),
        "kill('line_end')",
        on="PromptText",
    ),
    Action("composer.yank", "put back what was cut", ("ctrl+y",), on="PromptText"),
    Action("composer.copy", "copy what is selected", ("ctrl+c", "super+c"), on="PromptText"),
    Action("composer.cut", "cut what is selected", ("super+x",), on="PromptText"),
    Action("composer.paste", "paste what was copied here", ("ctrl+v",), on="PromptText"),
    Action(
        "composer.undo",
        "undo",
        ("ctrl+underscore", "ctrl+shift+minus", "ctrl+slash", "super+z"),
        on="PromptText",
    ),
    Action("composer.redo", "redo", ("ctrl+shift+z", "shift+super+z"), on="PromptText"),
    Action("history.take", "put it into the composer", ("enter", "tab")),
    Action("history.leave", "back to what you had typed", ("escape", "ctrl+c", "ctrl+g")),
    Action("history.older", "an older one", ("up", "ctrl+r"), "move(1)"),
    Action("history.newer", "a newer one", ("down", "ctrl+s"), "move(-1)"),
    Action("history.delete", "delete a letter", ("backspace", "ctrl+h")),
    Action("history.delete_all", "start over", ("ctrl+u", "ctrl+w")),
    Action("card.once", "yes, once", ("y",), approves=True),
    Action("card.session", "yes, this call for the session", ("a",), approves=True),
    Action(
        "card.rule",
        "yes, and allow what a rule says: edit the proposed rule before Enter",
        ("p",),
        approves=True,
    ),
    Action(
        "card.keep",
        "while a rule is written: for this session, or always in this folder",
        ("down", "up"),
        while_writing=True,
    ),
    Action("card.edit", "edit the call; you are then asked about the new one", ("e",)),
    Action("card.hunks", "answer a change hunk by hunk", ("h",), approves=True),
    Action("card.about", "what a tool that is not codeagent's own says about itself", ("i",)),
    Action("card.deny", "no", ("n",)),
    Action("card.because", "no, and say why", ("r",)),
    Action("card.never", "no, and never ask about these hosts again in this folder", ("v",)),
    Action("card.all", "yes to the whole batch", ("A",), approves=True),
    Action("boundary.go_on", "continue", ("c", "enter")),
    Action("boundary.more", "continue, with the same budget or limit again", ("plus",)),
    Action("boundary.step", "step mode: continue, and pause before the next batch", ("s",)),
    Action("boundary.run_on", "end step mode and continue", ("S",)),
    Action("boundary.skip", "skip the marked call", ("x",)),
    Action("boundary.skip_because", "skip it, and say why", ("X",)),
    Action(
        "boundary.edit",
        "edit the marked call: its command here, other arguments in $EDITOR",
        ("e",),
    ),
    Action("boundary.up", "mark the call above", ("up", "k")),
    Action("boundary.down", "mark the call below", ("down", "j")),
    Action("plan.start", "start the plan in ask mode", ("p",), approves=True),
    Action("plan.start_accepting", "start it in accept-edits mode", ("P", "a"), approves=True),
    Action("plan.edit", "edit it in $EDITOR; what you save is started", ("e",)),
    Action("plan.keep", "keep planning: put the card away", ("k",)),
    Action(
        "summary.use", "have the summary replace the older part of the conversation", ("c", "enter")
    ),
    Action("summary.edit", "edit it in $EDITOR; what you save is used", ("e",)),
    Action("summary.keep", "keep the conversation as it is", ("k",)),
    Action("find.previous", "match above", ("up", "enter"), priority=True),
    Action("find.next", "match below", ("down", "shift+enter"), priority=True),
    Action("find.close", "end the search", ("escape",), priority=True),
    Action("transcript.next", "next block or call", ("n",), "step(1)"),
    Action("transcript.previous", "block or call before", ("p",), "step(-1)"),
    Action("transcript.next_prompt", "next prompt", ("right_square_bracket",), "step_prompt(1)"),
    Action(
        "transcript.previous_prompt", "prompt before", ("left_square_bracket",), "step_prompt(-1)"
    ),
    Action("transcript.open", "open or fold", ("enter",)),
    Action("transcript.output", "the whole output of the call", ("o",)),
    Action("transcript.copy", "copy the block", ("y", "c")),
    Action("transcript.leave", "back to writing", ("escape",)),
    Action("picker.choose", "take the marked row", ("enter",), priority=True),
    Action("picker.close", "close, nothing changed", ("escape", "ctrl+c"), priority=True),
    Action("picker.up", "row above", ("up", "ctrl+p"), "move(-1)", priority=True),
    Action("picker.down", "row below", ("down", "ctrl+n"), "move(1)", priority=True),
    Action("picker.page_up", "a page up", ("pageup",), "page(-1)", priority=True),
    Action("picker.page_down", "a page down", ("pagedown",), "page(1)", priority=True),
    Action("page.close", "close", ("escape", "q")),
    Action("page.find", "find", ("slash",), on="OutputScreen"),
    Action("page.next", "next match", ("n",), on="OutputScreen"),
    Action("page.previous", "match before", ("N",), on="OutputScreen"),
    Action("page.copy", "copy the selection, else everything", ("c", "ctrl+c")),
    Action("page.up", "a line up", ("up", "k"), "turn('up')"),
    Action("page.down", "a line down", ("down", "j"), "turn('down')"),
    Action("page.page_up", "a page up", ("pageup", "b"), "turn('pageup')"),
    Action("page.page_down", "a page down", ("pagedown", "space"), "turn('pagedown')"),
    Action("page.home", "to the beginning", ("home", "g"), "turn('home')"),
    Action("page.end", "to the end", ("end", "G"), "turn('end')"),
    Action("page.left", "to the left", ("left",), "turn('left')", on="OutputScreen"),
    Action("page.right", "to the right", ("right",), "turn('right')", on="OutputScreen"),
    Action("queue.edit", "edit the marked text", ("e", "enter")),
    Action("queue.later", "read it later", ("J", "alt+down"), "shift(1)"),
    Action("queue.earlier", "read it earlier", ("K", "alt+up"), "shift(-1)"),
    Action("queue.take_back", "take it back into the line you type in", ("x", "delete")),
    Action("queue.up", "text above", ("up", "k"), "mark(-1)"),
    Action("queue.down", "text below", ("down", "j"), "mark(1)"),
    Action("queue.close", "close", ("escape", "q", "ctrl+c")),
    Action(
        "hunks.apply",
        "apply the hunks you took, once all of them were on screen",
        ("enter",),
        on="HunkReview",
    ),
    Action("hunks.close", "back, without an answer", ("escape", "q")),
    Action("hunks.next", "next hunk", ("j",), "hunk(1)"),
    Action("hunks.previous", "hunk before", ("k",), "hunk(-1)"),
    Action(
        "hunks.toggle",
        "take the hunk or leave it out",
        ("space",),
        "answer('toggle')",
        on="HunkReview",
    ),
    Action(
        "hunks.accept", "take it as it was proposed", ("a",), "answer('accept')", on="HunkReview"
    ),
    Action("hunks.reject", "leave it out", ("r",), "answer('reject')", on="HunkReview"),
    Action("hunks.accept_all", "take all hunks", ("A",), on="HunkReview"),
    Action("hunks.reject_all", "leave all hunks out", ("R",), on="HunkReview"),
    Action("hunks.edit", "write its new lines yourself", ("e",), on="HunkReview"),
    Action("hunks.editor", "the same in $EDITOR", ("ctrl+g",), on="HunkReview"),
    Action(
        "hunks.next_file",
        "/diff: next file",
        ("right_square_bracket",),
        "file(1)",
        on="ChangesScreen",
    ),
    Action(
        "hunks.previous_file",
        "/diff: file before",
        ("left_square_bracket",),
        "file(-1)",
        on="ChangesScreen",
    ),
    Action("hunks.restore", "/diff: take the hunk back", ("x",), on="ChangesScreen"),
    Action("hunks.restore_file", "/diff: take the whole file back", ("X",), on="ChangesScreen"),
    Action("hunks.confirm", "/diff: yes, take it back", ("y",), on="ChangesScreen"),
    Action("hunks.split", "the change in one column or in two", ("t",)),
    Action("hunks.full", "all unchanged lines, or only those near a change", ("f",), "everything"),
    Action("hunks.copy", "copy the selection, else the hunk", ("c", "ctrl+c")),
    Action("hunks.up", "a line up", ("up",), "turn('up')"),
    Action("hunks.down", "a line down", ("down",), "turn('down')"),
    Action("hunks.page_up", "a page up", ("pageup", "b"), "turn('pageup')"),
    Action("hunks.page_down", "a page down", ("pagedown",), "turn('pagedown')"),
    Action("hunks.home", "to the beginning", ("home", "g"), "turn('home')"),
    Action("hunks.end", "to the end", ("end", "G"), "turn('end')"),
    Action("lines.take", "take these lines", ("ctrl+s",), "end('take')", priority=True),
    Action(
        "lines.leave",
        "back to the hunks; what you typed is kept",
        ("escape",),
        "end('leave')",
        priority=True,
    ),
    Action("lines.editor", "continue in $EDITOR", ("ctrl+g",), "end('outside')", priority=True),
    Action("rewind.take_back", "take it back", ("enter", "y"), "take('all')"),
    Action(
        "rewind.leave_mine",
        "take it back, but leave the files you edited as they are",
        ("m",),
        "take('not mine')",
    ),
    Action("jobs.output", "the whole output of the marked job", ("enter", "o")),
    Action("jobs.stop", "stop it; asks once", ("s",)),
    Action("jobs.yes", "yes, stop it", ("y",)),
    Action("jobs.send", "send it text, if it takes any", ("i",)),
    Action("jobs.up", "job above", ("up", "k"), "mark(-1)"),
    Action("jobs.down", "job below", ("down", "j"), "mark(1)"),
    Action("jobs.page_up", "what it printed: a page up", ("pageup", "b"), "turn('pageup')"),
    Action("jobs.page_down", "a page down", ("pagedown", "space"), "turn('pagedown')"),
    Action("jobs.home", "to the beginning of what was kept of it", ("home", "g"), "turn('home')"),
    Action("jobs.end", "to its end, and follow it", ("end", "G"), "turn('end')"),
    Action("jobs.left", "to the left", ("left",), "turn('left')"),
    Action("jobs.right", "to the right", ("right",), "turn('right')"),
    Action("jobs.close", "close", ("escape", "q", "ctrl+t", "ctrl+c")),
    Action("tools.trust", "trust the tool files of the project as they are now; asks once", ("t",)),
    Action("tools.yes", "yes, load them", ("y",), approves=True),
    Action("tools.distrust", "stop trusting them", ("d",)),
    Action("mcp.next", "choose the next server", ("tab", "n")),
    Action("mcp.restart", "end the chosen server and start it again", ("r",)),
    Action("mcp.trust", "trust the servers of the project as they are now; asks once", ("t",)),
    Action(
        "mcp.give",
        "give the chosen server of the project the variables it wants; asks once",
        ("v",),
    ),
    Action("mcp.agree", "agree to what the chosen server changed; asks once", ("a",)),
    Action("mcp.yes", "yes, do it", ("y",), approves=True),
    Action("mcp.distrust", "stop trusting the project's servers", ("d",)),
    Action("permissions.show", "the marked one in full", ("enter",)),
    Action("permissions.revoke", "revoke the marked rule", ("x",)),
    Action("permissions.new", "write a new rule", ("n",)),
    Action("permissions.propose", "make a rule from the marked decision", ("p",)),
    Action("permissions.part", "from the rules to the decisions, and back", ("tab",), "other_part"),
    Action("permissions.up", "row above", ("up", "k"), "move(-1)"),
    Action("permissions.down", "row below", ("down", "j"), "move(1)"),
    Action("permissions.page_up", "a page up", ("pageup", "b"), "page(-1)"),
    Action("permissions.page_down", "a page down", ("pagedown", "space"), "page(1)"),
    Action("permissions.close", "close", ("escape", "q")),
    Action("rule.take", "take the rule", ("enter",), priority=True),
    Action(
        "rule.scope",
        "for this session, or also for later ones in this folder",
        ("tab",),
        priority=True,
    ),
    Action("rule.close", "close, nothing changed", ("escape", "ctrl+c"), priority=True),
    Action("question.yes", "yes", ("y",), "answer(True)"),
    Action("question.demo", "look around with the demo model", ("d",), "demo", on="FirstRun"),
    Action("question.no", "no", ("n", "enter", "escape", "ctrl+c"), "answer(False)"),
)
"""Everything that a key does."""


def bindings(scope: str, on: str = "") -> list[BindingType]:
    """Return the `BINDINGS` of the class that handles a scope's keys; `on` names it if several
    classes share them."""
    return [
        Binding(
            ",".join(row.keys), row.pressed, row.about, show=False, priority=row.priority, id=row.id
        )
        for row in KEYS
        if row.scope == scope and row.on == on
    ]


def binding_of(row_id: str, does: str) -> Binding:
    """Return a binding of the row's keys, also of the user's own, to another action."""
    row = next(row for row in KEYS if row.id == row_id)
    return Binding(
        ",".join(row.keys), does, row.about, show=False, priority=row.priority, id=row_id
    )


def letters(scope: str) -> dict[str, str]:
    """Map the letters that a card shows, each the first default key of an action, to the ids of its
    actions."""
    return {row.keys[0]: row.id for row in KEYS if row.scope == scope}
