"""User-defined tools: a loader for each kind of file, and the machinery of functions and
templates."""

from codeagent.core.extension import Extension, FileKind, InFolders

_HERE = "codeagent.extensions.user_tools"
_PROJECT = ((".codeagent", "tools"),)

EXTENSION = Extension(
    name="user_tools",
    about="tools in YAML and Python files of yours and of the project",
    when_off="files with tools are ignored, so a built-in tool that one narrows is not narrowed",
    in_folders=InFolders(
        kinds=(
            FileKind(
                suffixes=(".py",),
                own="tools",
                project=_PROJECT,
                make=f"{_HERE}.python:python_loader",
                look=f"{_HERE}.python:marked_in",
                packages=f"{_HERE}.python:entry_point_tools",
            ),
            FileKind(
                suffixes=(".yaml", ".yml"),
                own="tools",
                project=_PROJECT,
                make=f"{_HERE}.yaml_loader:YamlLoader",
            ),
        )
    ),
)
