"""Commands about the whole session on screen: give it a title, export it, continue in a copy."""

import asyncio

from codeagent.core.sanitize import one_line
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.slash import change_to


async def rename(chat: ChatScreen, argument: str) -> None:
    """Handle `/rename [title]`; without one, the title is removed. Raises SessionError."""
    client = await chat.outbox.ready()
    await asyncio.to_thread(client.launcher.rename, client.agent.session_id, argument)
    chat.tell(
        f"title: {one_line(argument, 60)}" if argument else "the session no longer has a title"
    )


async def export(chat: ChatScreen, argument: str) -> None:
    """Handle `/export [file]`: .md, .html or .jsonl sets the format; never overwrites. Raises
    CodeagentError."""
    client = await chat.outbox.ready()
    name = argument or f"codeagent-{client.agent.session_id}.md"
    path = await asyncio.to_thread(client.launcher.export, client.agent.session_id, name)
    chat.tell(f"written: {one_line(str(path), 200)}")


async def fork(chat: ChatScreen, argument: str) -> None:
    """Handle `/fork [prompt]`: continue in a copy, without that prompt (from 1) and what followed
    it."""
    if argument and not (argument.isdecimal() and int(argument)):
        chat.tell(f"/fork takes the number of a prompt, from 1, not '{one_line(argument, 20)}'")
        return
    client = await chat.outbox.ready()
    before = int(argument) if argument else None
    await change_to(
        chat, await asyncio.to_thread(client.launcher.fork, client.agent.session_id, before)
    )
