"""The parts that rooms add to a conversation: how they are made, and what they are told of it."""

from codeagent.agent.calls import ToolEnvironment
from codeagent.agent.parts import Parts
from codeagent.app.tools import ToolDependencies
from codeagent.config.rooms import all_rooms
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.extension import OfferedSet, resolved
from codeagent.core.groups import Group
from codeagent.core.model import ModelOpener
from codeagent.session.fold import History
from codeagent.tools.catalog import ToolCatalog
from codeagent.workspace.checkpoints import GitCheckpoints


@dataclass(frozen=True)
class Opening:
    """What is known of a conversation before its tools are made."""

    settings: Settings
    history: History = History()
    """What its session holds."""
    group: Group | None = None
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


def open_parts(opening: Opening) -> Parts:
    """Make the parts of the rooms that are not switched off. Raises ConfigError."""
    rooms = all_rooms().without(opening.settings.extensions.off).on
    made = [part for room in rooms if room.parts for part in resolved(room.parts)(opening)]
    return Parts(made, {act: do for room in rooms for act, do in room.acts.items()})
