"""Attachments: the files, folders and images that a prompt mentions with `@`, and pasted images."""

from codeagent.core.extension import Extension, InConversations, InFolders, OnScreen

FOLDER = "attachments"
"""The folder of pasted images, in the state folder."""
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
    when_off="a path after an @ is sent as text, and images cannot be pasted",
)
