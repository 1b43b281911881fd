"""User-defined tools: a loader for each kind of file, and the machinery of functions and
templates."""

from codeagent.core.extension import Extension, FileLoader

_ROOM = "codeagent.extensions.user_tools"

EXTENSION = Extension(
    name="user_tools",
    about="tools in YAML and Python files of yours and of the project",
    loaders=(
        FileLoader(
            suffixes=(".py",),
            make=f"{_ROOM}.python:python_loader",
            look=f"{_ROOM}.python:marked_in",
            packages=f"{_ROOM}.python:entry_point_tools",
        ),
        FileLoader(suffixes=(".yaml", ".yml"), make=f"{_ROOM}.yaml_loader:YamlLoader"),
    ),
)
