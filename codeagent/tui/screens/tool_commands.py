"""`/tools`: the page, and what its keys do as words."""

from codeagent.core.acts import TrustTools
from codeagent.core.sanitize import one_line
from codeagent.tui.screens.commanded import Chat
from codeagent.tui.screens.text import TextScreen
from codeagent.tui.screens.tools import DISTRUSTED, ToolsScreen


class ToolCommands:
    """Says what cannot be done in one line."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def run(self, argument: str) -> None:
        """`/tools [trust|distrust]`; trusting is asked about on the page. Raises CodeagentError."""
        client = await self._chat.ready()
        toolbox = client.toolbox
        match argument:
            case "" if toolbox is None:
                await self._chat.app.push_screen_wait(TextScreen("Tools", client.facts("tools")))
            case "" | "trust" if toolbox is not None:
                await self._chat.app.push_screen_wait(ToolsScreen(client, toolbox, ask=bool(argument)))
            case "trust" | "distrust":
                refused = await client.finish(TrustTools(argument == "trust"))
                self._chat.tell(DISTRUSTED if refused is None else refused.reason)
            case _:
                self._chat.tell(f"/tools takes nothing, trust or distrust, not '{one_line(argument, 40)}'")
