"""The sandbox image that a repository describes: read, agreed to, and built without trust."""

from codeagent.core.extension import Extension

EXTENSION = Extension(name="images", about="the sandbox image that a repository describes")
