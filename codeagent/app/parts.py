"""The parts that extensions add to a conversation: how they are made, and what they are told of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.agent.agent import Agent
from codeagent.agent.conversation import Conversation
from codeagent.agent.parts import Opening, Parts
from codeagent.app.tools import Assembly
from codeagent.config.extensions import all_extensions
from codeagent.config.settings import Settings
from codeagent.core.extension import OfferedSet, resolved
from codeagent.core.model import ModelInUse
from codeagent.disk.opens import may_exist
from codeagent.session.fold import History
from codeagent.session.log import SessionLog

if TYPE_CHECKING:  # few conversations run a group
    from codeagent.core.groups import Group


def agent_of(
    assembly: Assembly,
    conversation: Conversation,
    log: SessionLog,
    history: History,
    model: ModelInUse,
) -> Agent:
    """Make the agent of a conversation, and tell its parts what others are opened with."""
    dependencies = assembly.dependencies
    dependencies.parts.assembled(assembly)
    return Agent(
        conversation,
        assembly.environment,
        log,
        history,
        questions=dependencies.questions,
        checkpoints=assembly.snapshots,
        jobs=dependencies.jobs,
        model=model,
        open_model=assembly.open_model,
        parts=dependencies.parts,
        programs=dependencies.programs,
    )


def open_parts(settings: Settings, history: History, group: "Group | None" = None) -> Parts:
    """Make the parts of the extensions that are not switched off. Raises ConfigError."""

    def named(one: OfferedSet) -> bool:
        listed = {name for names in settings.tools[:1] for name in names}
        chosen = (*settings.toolsets.offer, *settings.toolsets.use)
        return one.name in chosen or not listed.isdisjoint(one.tools)

    extensions = all_extensions().without(settings.extensions.off).on
    opening = Opening(history=history, named=named, waits=settings.wait_for_triggers, group=group)
    made = [part for each in extensions if each.parts for part in resolved(each.parts)(opening)]
    return Parts(made, {act: do for each in extensions for act, do in each.acts.items()})


def remove_leftovers(state: Path) -> None:
    """Remove what a crash left of extensions in the state folder, of any that is installed."""
    for extension in all_extensions().on:
        for name, remove in extension.leftovers.items():
            if may_exist(folder := state / name):
                resolved(remove)(folder)
