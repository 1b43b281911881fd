"""Files, folders and images in a prompt: what `@` brings with it, and images that are pasted."""

from codeagent.core.extension import Extension, InConversations, InFolders, OnScreen

FOLDER = "attachments"
"""The folder of pasted images, below that of the state."""
PREFIX = "image:"
"""What the mention of a pasted image begins with."""
EXTENSION = Extension(
    name="attachments",
    about="files, folders and images in a prompt: @path, @path:10-20, pasted images",
    in_conversations=InConversations(
        mentions="codeagent.extensions.attachments.mentions:read_mentions"
    ),
    in_folders=InFolders(leftovers={FOLDER: "codeagent.extensions.attachments.pasting:clean"}),
    screen=OnScreen(pastes="codeagent.extensions.attachments.pasting:pasted"),
    when_off="a path behind an @ is sent as text, and images cannot be pasted",
)
