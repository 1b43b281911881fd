"""`/tools`: the page, and what its keys do as words."""

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
        talk = await self._chat.ready()
        toolbox = talk.toolbox()
        match argument:
            case "" if toolbox is None:
                await self._chat.app.push_screen_wait(TextScreen("Tools", talk.facts("tools")))
            case "" | "trust" if toolbox is not None:
                await self._chat.app.push_screen_wait(ToolsScreen(talk, toolbox, ask=bool(argument)))
            case "trust" | "distrust":
                await talk.trust_tools(argument == "trust")
                self._chat.tell(DISTRUSTED)
            case _:
                self._chat.tell(f"/tools takes nothing, trust or distrust, not '{one_line(argument, 40)}'")
