"""`/replay`: the conversation on the screen again, as it happened."""

from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.slash import lend_terminal


async def replay(chat: ChatScreen, argument: str) -> None:
    """Handle `/replay`."""
    session = chat.state.status.now.conversation.session
    if await lend_terminal(chat, "replay", session):
        chat.tell(f"it was not replayed; codeagent replay {session} says why")
