"""`codeagent run --group`: reads the group and its task, which no other run needs."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.commands.arguments import read_named, say
from codeagent.commands.run import read_piped, read_prompt
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.acts import RunGroup
from codeagent.core.errors import ConfigError
from codeagent.core.groups import Group
from codeagent.extensions.agents.group_files import load_group
from codeagent.tools.folders import LARGEST_FILE, ToolFile

if TYPE_CHECKING:
    from codeagent.commands.ports import App


def chosen_group(
    args: argparse.Namespace, settings: Settings, local: LocalEnvironment, app: "App"
) -> tuple[RunGroup, Settings]:
    """Return the group with its task, and the settings with a model; prints warnings on standard
    error. Raises ConfigError."""
    run = _read(args)
    if settings.model is None:
        settings = _with_model_of(run.group, settings, local, app)
    return run, settings


def _read(args: argparse.Namespace) -> RunGroup:
    shown = args.group
    path = Path(shown)
    content = read_named(Path(args.cwd or ".") / path, shown, LARGEST_FILE)
    group, problems = load_group(ToolFile(path, shown, content, "user"))
    if group is None:
        errors = [str(problem) for problem in problems if problem.level == "error"]
        raise ConfigError("\n  ".join(["the group was not run:", *errors]))
    for problem in problems:
        say(f"{problem.level}: {problem}")
    given = group.task if args.prompt is None else read_prompt(args.prompt)
    if not given.strip():
        raise ConfigError(f"{shown} has no task, so give PROMPT; nothing was run")
    return RunGroup(group, given + (read_piped() if args.prompt != "-" else ""))


def _with_model_of(
    group: Group, settings: Settings, local: LocalEnvironment, app: "App"
) -> Settings:
    """Return the settings with the model of the first agent, if each has one. Raises ConfigError if
    one has none."""
    files = {agent.name: agent.model for agent in app.describe_tools(local, settings).agents}
    models = {
        one.definition.name: one.definition.model or files.get(one.base or "")
        for one in group.members
    }
    if without := [name for name, model in models.items() if model is None]:
        raise ConfigError(
            f"no model is set, and {', '.join(without)} has none: give --model NAME; nothing was run"
        )
    return replace(settings, model=next(iter(models.values())))
