"""A recorded session again: on the screen, as a picture, and with another model."""

from codeagent.core.extension import Extension

EXTENSION = Extension(
    name="replay", about="recorded sessions again: on the screen, as pictures, with another model"
)
