"""Runs the rows of the table of actions for a chat screen; most of the slash commands are functions
here."""

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import get_args

from codeagent.core.acts import SetNetwork, SetToolset, TrustTools
from codeagent.core.errors import CodeagentError
from codeagent.core.host_programs import HostProgram, start_program
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line
from codeagent.tui.actions import Action
from codeagent.tui.commands import NOT_RUN, OFFERED, help_markdown, mistyped, wrong_argument
from codeagent.tui.facts import Facts
from codeagent.tui.info_pages import About
from codeagent.tui.keymap import keymap_of
from codeagent.tui.launcher import FirstPrompt
from codeagent.tui.pages.changes import ChangesScreen
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.facts import FactsPage
from codeagent.tui.pages.info import KeySheet, TextScreen
from codeagent.tui.pages.permissions import PermissionsScreen
from codeagent.tui.pages.picker import Picker, ThemePicker, palette_rows, session_rows
from codeagent.tui.pages.queue import QueuePage
from codeagent.tui.pages.tools import DISTRUSTED, ToolsScreen
from codeagent.tui.parts.typed_input import CommandInput, parse_input

Handler = Callable[[ChatScreen, str], Awaitable[None]]
OWN_PROGRAM = HostProgram("codeagent on this terminal", None)
"""The function of a row: takes the argument of its command, and returns once the pages it opened
are closed."""


def run(chat: ChatScreen, row: Action, argument: str = "") -> None:
    """Run the row now, or once there is a conversation; if it cannot be run, one line says why."""
    wrong = wrong_argument(row, argument)
    if wrong:
        wrong += f" · {NOT_RUN}"
    elif chat.outbox.running and not row.while_running:
        wrong = f"/{row.name} was not run: the agent is working; Esc pauses it, Esc again stops it"
    if wrong:
        chat.tell(wrong)
    elif row.needs_conversation and chat.outbox.holds:
        chat.outbox.hold(f"/{row.name} {argument}".rstrip(), partial(_late, chat, row, argument))
    else:
        chat.app.run_worker(_told(chat, row, argument))


async def _late(chat: ChatScreen, row: Action, argument: str) -> None:
    """Run a command that waited for the start."""
    if row.while_running or not chat.outbox.running:
        await _told(chat, row, argument)
    else:
        run(chat, row, argument)


async def _told(chat: ChatScreen, row: Action, argument: str) -> None:
    try:
        await _do(chat, row, argument)
    except CodeagentError as error:
        chat.tell(str(error))


async def _do(chat: ChatScreen, row: Action, argument: str) -> None:
    does = row.handler
    if ":" in does:
        given = f"{row.name} {argument}".rstrip() if row.scope == OFFERED else argument
        await handler(does)(chat, given)
    else:
        where = chat.composer if row.scope == "composer" else chat
        await where.run_action(f"{does}({argument!r})" if argument else does)


def handler(does: str) -> Handler:
    """Import the function named `module:function`, and with it the pages. Raises ImportError or
    AttributeError."""
    module, _, name = does.partition(":")
    module = module if "." in module else f"codeagent.tui.pages.{module}"
    found: Handler = getattr(import_module(module), name)
    return found


async def palette(chat: ChatScreen, argument: str) -> None:
    running, keymap = chat.outbox.running, keymap_of(chat)
    models = () if running or chat.outbox.client is None else await chat.outbox.client.models()
    rows = palette_rows(keymap, chat.themes.themes.names(), models, running=running)
    line = await chat.app.push_screen_wait(Picker("Commands", rows))
    if isinstance(chosen := parse_input(line or "", keymap.table.commands), CommandInput):
        run(chat, chosen.row, chosen.arguments)


async def new(chat: ChatScreen, argument: str) -> None:
    await change_to(chat, None)


async def resume(chat: ChatScreen, argument: str) -> None:
    """Handle `/resume [session]`."""
    if argument:
        await change_to(chat, argument)
        return
    present = chat.state.status.now.conversation.session
    sessions = [row for row in await (await chat.outbox.ready()).sessions() if row.id != present]
    if not sessions:
        chat.tell("no other session in this folder yet")
        return
    rows = session_rows(sessions, chat.clock())
    chosen = await chat.app.push_screen_wait(Picker("Resume a session", rows))
    if chosen is not None:
        await change_to(chat, chosen)


async def change_to(chat: ChatScreen, session: str | None) -> None:
    """Change to another conversation, with the options of this one."""
    await chat.change_to(
        replace(chat.launch_options, proceed=True, resume=session, prompt=FirstPrompt())
    )


async def leave(chat: ChatScreen, argument: str) -> None:
    await chat.run_action("app.quit")


async def print_below(chat: ChatScreen, argument: str) -> None:
    """Print the conversation into the terminal's own scrollback and return to the screen."""
    with chat.app.suspend():
        sys.stdout.write(chat.view.plain_text() + "\n")


async def lend_terminal(chat: ChatScreen, *words: str) -> int:
    """Run another codeagent with these words on the terminal until it ends; return its exit code."""
    with chat.app.suspend():
        command = (sys.executable, "-P", "-m", "codeagent", *words)
        process = await start_program(OWN_PROGRAM, command, folder=None, environment=os.environ)
        return await process.wait()


async def feedback(chat: ChatScreen, argument: str) -> None:
    """Handle `/feedback TEXT`: write a report to send to those who maintain codeagent."""
    if not argument:
        chat.tell("/feedback takes what you saw, and what you expected")
        return
    from codeagent.tui.crash import (
        record_feedback,  # not needed before somebody has something to say
    )

    said = record_feedback(
        argument,
        chat.folders.state,
        session=chat.state.status.now.conversation.session,
        redact=Redactor(os.environ).clean,
    )
    chat.state.document.remark(said, "info")


async def copy(chat: ChatScreen, argument: str) -> None:
    """Handle `/copy [all]`: copy the last answer, or the whole conversation."""
    if argument not in ("", "all"):
        chat.tell(f"/copy takes nothing or all, not '{one_line(argument, 40)}'")
        return
    text = chat.view.plain_text() if argument else chat.state.document.last_answer()
    if text.strip():
        chat.copy_text(text)
    else:
        chat.tell("there is nothing to copy yet")


async def mode(chat: ChatScreen, argument: str) -> None:
    """Handle `/mode [ask|accept-edits|plan|auto]`."""
    modes: Sequence[Mode] = get_args(Mode)
    if (chosen := next((each for each in modes if each == argument), None)) is not None:
        chat.outbox.set_mode(chosen)
    elif argument:
        chat.tell(f"/mode takes {', '.join(modes)}, not '{one_line(argument, 40)}'")
    else:
        chat.tell(
            f"mode: {chat.state.status.now.conversation.mode}; /mode {'|'.join(modes)} changes it"
        )


async def sandbox(chat: ChatScreen, argument: str) -> None:
    """Handle `/sandbox [none|allow-list|ask|open]`."""
    if not argument:
        await info_page("sandbox", chat)
        return
    client, level = await chat.outbox.ready(), argument
    known: Sequence[NetworkLevel] = get_args(NetworkLevel)
    if (chosen := next((each for each in known if each == level), None)) is not None:
        refused = await client.finish(SetNetwork(chosen))
        if refused is not None:
            chat.tell(refused.reason)
    else:
        chat.tell(f"/sandbox takes {', '.join(known)}, not '{one_line(level, 40)}'")


async def queue(chat: ChatScreen, argument: str) -> None:
    client, queued = await chat.outbox.ready(), chat.state.queue
    if queued.items:
        await chat.app.push_screen_wait(QueuePage(queued, client, chat.state.give_back))
    else:
        chat.tell("the queue is empty")


async def diff(chat: ChatScreen, argument: str) -> None:
    await chat.app.push_screen_wait(ChangesScreen(await chat.outbox.ready()))


async def permissions(chat: ChatScreen, argument: str) -> None:
    await chat.app.push_screen_wait(PermissionsScreen(await chat.outbox.ready(), chat.state))


async def tools(chat: ChatScreen, argument: str) -> None:
    """Handle `/tools [trust|distrust|on SET [TOOL...]|off SET [TOOL...]]`; the page asks before it
    trusts."""
    client = await chat.outbox.ready()
    toolbox = client.toolbox
    match argument.split():
        case ["on" | "off" as word, name, *names]:
            chat.answer(await client.finish(SetToolset(name, word == "on", tuple(names))))
            return
        case ["on" | "off" as word]:
            chat.tell(f"/tools {word} needs the name of a toolset; /tools lists them")
            return
    match argument:
        case "" if toolbox is None:
            await info_page("tools", chat)
        case "" | "trust" if toolbox is not None:
            await chat.app.push_screen_wait(ToolsScreen(client, toolbox, ask=bool(argument)))
        case "trust" | "distrust":
            chat.answer(await client.finish(TrustTools(argument == "trust")), DISTRUSTED)
        case _:
            chat.tell(
                f"/tools takes nothing, trust, distrust, on SET or off SET, not '{one_line(argument, 40)}'"
            )


async def theme(chat: ChatScreen, argument: str) -> None:
    """Handle `/theme [name]`."""
    chosen: str | None = argument or await chat.app.push_screen_wait(ThemePicker(chat.themes))
    if not chosen:
        return
    if argument and (problem := chat.themes.use(argument)):
        chat.tell(problem)
        return
    chat.tell(f"theme: {chosen}")
    chat.tell(f"theme: {chosen}{await (await chat.outbox.ready()).keep({'theme': chosen})}")


async def keys(chat: ChatScreen, argument: str) -> None:
    await chat.app.push_screen_wait(KeySheet(keymap_of(chat)))


async def help_page(chat: ChatScreen, argument: str) -> None:
    await chat.app.push_screen_wait(TextScreen("Help", help_markdown(keymap_of(chat).table)))


async def info_page(about: About, chat: ChatScreen, argument: str = "") -> None:
    await show_facts(chat, await (await chat.outbox.ready()).facts(about))


async def show_facts(chat: ChatScreen, facts: Facts) -> None:
    """Show a page of facts, then run the command that was chosen on it."""
    line = await chat.app.push_screen_wait(FactsPage(facts))
    chosen = parse_input(line or "", keymap_of(chat).table.commands)
    if isinstance(chosen, CommandInput):
        run(chat, chosen.row, chosen.arguments)
    elif line:
        chat.tell(
            mistyped(line, keymap_of(chat).table.commands, keymap_of(chat).table.switched_off)
        )


status, cost, context = (
    partial(info_page, "status"),
    partial(info_page, "cost"),
    partial(info_page, "context"),
)
stats, agents = partial(info_page, "stats"), partial(info_page, "agents")
skills, extensions = partial(info_page, "skills"), partial(info_page, "extensions")
