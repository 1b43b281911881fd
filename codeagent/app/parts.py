"""The parts that extensions add to a conversation: how they are made, and what they are told of it."""

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.agent.agent import Agent
from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.conversation import Conversation
from codeagent.agent.parts import Parts
from codeagent.app.tools import ToolDependencies
from codeagent.config.extensions import all_extensions
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.extension import OfferedSet, resolved
from codeagent.core.model import ModelInUse, ModelOpener
from codeagent.disk.opens import may_exist
from codeagent.session.fold import History
from codeagent.session.log import SessionLog
from codeagent.tools.catalog import ToolCatalog
from codeagent.workspace.checkpoints import GitCheckpoints

if TYPE_CHECKING:  # few conversations run a group
    from codeagent.core.groups import Group


@dataclass(frozen=True)
class Opening:
    """What is known of a conversation before its tools are made."""

    settings: Settings
    history: History = field(default_factory=History)
    """What its session holds."""
    group: "Group | None" = None
    """The group that it is opened for."""

    def names(self, one: OfferedSet) -> bool:
        """Whether the settings name a set, or the user's list of tools one of its tools."""
        toolsets = self.settings.toolsets
        listed = {name for names in self.settings.tools[:1] for name in names}
        return one.name in (*toolsets.offer, *toolsets.use) or not listed.isdisjoint(one.tools)


@dataclass(frozen=True)
class Assembly:
    """What a conversation was put together from: another one can be opened with it."""

    settings: Settings
    dependencies: ToolDependencies
    environment: ToolEnvironment
    open_model: ModelOpener
    catalog: ToolCatalog
    """An agent that names its tools has them even if a recipe's step holds its parent to others,
    and those of a set, whether it is on or not."""
    snapshots: GitCheckpoints

    def agent(
        self, conversation: Conversation, log: SessionLog, history: History, model: ModelInUse
    ) -> Agent:
        """Make the agent of the conversation, and tell its parts what others are opened with."""
        parts = self.dependencies.parts
        parts.assembled(self)
        return Agent(
            conversation,
            self.environment,
            log,
            history,
            questions=self.dependencies.questions,
            checkpoints=self.snapshots,
            jobs=self.dependencies.jobs,
            model=model,
            open_model=self.open_model,
            parts=parts,
            programs=self.dependencies.programs,
        )


def open_parts(opening: Opening) -> Parts:
    """Make the parts of the extensions that are not switched off. Raises ConfigError."""
    extensions = all_extensions().without(opening.settings.extensions.off).on
    made = [part for each in extensions if each.parts for part in resolved(each.parts)(opening)]
    return Parts(made, {act: do for each in extensions for act, do in each.acts.items()})


def remove_leftovers(state: Path) -> None:
    """Remove what a crash left of extensions in the state folder, of any that is installed."""
    for extension in all_extensions().on:
        for name, remove in extension.leftovers.items():
            if may_exist(folder := state / name):
                resolved(remove)(folder)
