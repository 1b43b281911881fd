"""Runs the rows of the table of actions for a chat screen; most of the slash commands are functions
here."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, get_args

from codeagent.core.acts import SetEffort, SetModel, SetNetwork, SetToolset, TrustTools
from codeagent.core.budget import parse_effort, said_effort
from codeagent.core.errors import CodeagentError
from codeagent.core.model import ModelInUse, same_provider
from codeagent.core.policy import Mode, NetworkLevel
from codeagent.core.sanitize import one_line
from codeagent.tui.actions import Action
from codeagent.tui.commands import NOT_RUN, OFFERED, help_markdown, wrong_argument
from codeagent.tui.info_pages import About
from codeagent.tui.keymap import keymap_of
from codeagent.tui.launcher import Missing, ModelRow
from codeagent.tui.pages.changes import ChangesScreen
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.info import KeySheet, TextScreen
from codeagent.tui.pages.opening import FirstRun
from codeagent.tui.pages.permissions import PermissionsScreen
from codeagent.tui.pages.picker import (
    Picker,
    ThemePicker,
    model_rows,
    network_rows,
    palette_rows,
    session_rows,
)
from codeagent.tui.pages.queue import QueuePage
from codeagent.tui.pages.tools import DISTRUSTED, ToolsScreen
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.parts.typed_input import CommandInput, parse_input

_NETWORK = "Sandbox: what commands with network access may reach"
_ANOTHER_KEY = "another key"
"""The key of a row in the list of models; it cannot be a model's name."""

Handler = Callable[[ChatScreen, str], Awaitable[None]]
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
    line = await _pick(chat, "Commands", rows)
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
        chat.tell("there is no other session in this folder yet")
        return
    chosen = await _pick(chat, "Resume a session", session_rows(sessions, chat.clock()))
    if chosen is not None:
        await change_to(chat, chosen)


async def change_to(chat: ChatScreen, session: str | None) -> None:
    """Change to another conversation, with the options of this one."""
    await chat.change_to(replace(chat.launch_options, proceed=True, resume=session, prompt=""))


async def leave(chat: ChatScreen, argument: str) -> None:
    await chat.run_action("app.quit")


async def print_below(chat: ChatScreen, argument: str) -> None:
    """Print the conversation into the terminal's own scrollback and return to the screen."""
    with chat.app.suspend():
        sys.stdout.write(chat.view.plain_text() + "\n")


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
    client, now = await chat.outbox.ready(), chat.state.status.now
    level = argument or await _pick(
        chat, _NETWORK, network_rows(client.agent.rules), marked=now.conversation.network
    )
    known: Sequence[NetworkLevel] = get_args(NetworkLevel)
    if (chosen := next((each for each in known if each == level), None)) is not None:
        refused = await client.finish(SetNetwork(chosen))
        if refused is not None:
            chat.tell(refused.reason)
    elif level is not None:
        chat.tell(f"/sandbox takes {', '.join(known)}, not '{one_line(level, 40)}'")


async def queue(chat: ChatScreen, argument: str) -> None:
    client, queued = await chat.outbox.ready(), chat.state.queue
    if queued.items:
        await _show(chat, QueuePage(queued, client, chat.state.give_back))
    else:
        chat.tell("the queue is empty")


async def diff(chat: ChatScreen, argument: str) -> None:
    await _show(chat, ChangesScreen(await chat.outbox.ready()))


async def permissions(chat: ChatScreen, argument: str) -> None:
    await _show(chat, PermissionsScreen(await chat.outbox.ready(), chat.state))


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
            await _show(chat, ToolsScreen(client, toolbox, ask=bool(argument)))
        case "trust" | "distrust":
            chat.answer(await client.finish(TrustTools(argument == "trust")), DISTRUSTED)
        case _:
            chat.tell(
                f"/tools takes nothing, trust, distrust, on SET or off SET, not '{one_line(argument, 40)}'"
            )


async def model(chat: ChatScreen, argument: str) -> None:
    """Handle `/model [name]`; asks for the key that it needs."""
    client = await chat.outbox.ready()
    models = {row.name: row for row in await client.models()}
    present = chat.state.status.now.conversation.model
    rows = [
        *model_rows(models.values()),
        PickerRow(_ANOTHER_KEY, "Paste an API key", "tried once, then kept"),
    ]
    name = argument or await _pick(chat, "Choose the model", rows, marked=present)
    if name == _ANOTHER_KEY:
        own = client.agent.model.api_base
        whose = "your model's provider" if own is None else one_line(own, 80)
        asked = Missing("key", f"Paste the API key from {whose}", variable=own or "")
        name = present if await _new_key(chat, asked) else None
    if not name:
        return
    row = (
        _asked_for(name, models, client.agent.model)
        if argument
        else models.get(name) or ModelRow(name, "", True)
    )
    missing = await client.missing(row)
    if missing is not None and missing.kind == "key" and await _new_key(chat, missing):
        missing = await client.missing(row)
    if missing is not None:
        chat.tell(missing.text)
    elif (refused := await client.finish(SetModel(row.name, row.api_base))) is not None:
        chat.tell(refused.reason)
    else:
        chat.launch_options = replace(
            chat.launch_options, model=row.name, api_base=row.api_base, chosen=True
        )
        kept = await client.keep({"model": row.name, "api_base": row.api_base})
        chat.tell(f"model: {name}{kept}")


def _asked_for(name: str, models: Mapping[str, ModelRow], now: ModelInUse) -> ModelRow:
    """Return the model of a typed name: the one that a local server offers, else at the server of
    the present one."""
    row = models.get(name, ModelRow(name, "", ready=True))
    stays = row.api_base is None and same_provider(name, now.name)
    return replace(row, api_base=now.api_base) if stays else row


async def _new_key(chat: ChatScreen, missing: Missing) -> bool:
    """Ask for a new key; returns whether one was kept."""
    page = FirstRun(missing, (await chat.outbox.ready()).keep_key)
    await chat.app.push_screen_wait(page)
    return page.key_kept


async def effort(chat: ChatScreen, argument: str) -> None:
    """Handle `/effort [off|low|medium|high|TOKENS]`. Raises ConfigError."""
    client = await chat.outbox.ready()
    if not argument:
        now = client.agent.model.effort
        chat.tell("thinking: " + ("the provider's default" if now is None else said_effort(now)))
        return
    wanted = parse_effort(argument)
    refused = await client.finish(SetEffort(wanted))
    if refused is not None:
        chat.tell(refused.reason)
        return
    chat.tell(
        f"thinking: {said_effort(wanted)}, from the next answer on{await client.keep({'thinking': wanted})}"
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
    await _show(chat, KeySheet(keymap_of(chat)))


async def help_page(chat: ChatScreen, argument: str) -> None:
    await _show(chat, TextScreen("Help", help_markdown(keymap_of(chat).table)))


async def info_page(about: About, chat: ChatScreen, argument: str = "") -> None:
    text = (await chat.outbox.ready()).info_page(about)
    await _show(chat, TextScreen(about.capitalize(), text))


status, cost, context = (
    partial(info_page, "status"),
    partial(info_page, "cost"),
    partial(info_page, "context"),
)
config, skills = partial(info_page, "config"), partial(info_page, "skills")


async def _pick(
    chat: ChatScreen, title: str, rows: Sequence[PickerRow], *, marked: str = ""
) -> str | None:
    return await chat.app.push_screen_wait(Picker(title, rows, marked=marked))


async def _show(chat: ChatScreen, page: Any) -> None:
    await chat.app.push_screen_wait(page)
