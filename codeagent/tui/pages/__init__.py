"""Everything that fills the screen: the chat, and the pages and panels over it."""
