"""The port through which sessions are opened and tasks are worked on: what a front end, a command
or an extension is handed, so that it need not know what a session is made of."""

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.acts import RunGroup, RunRecipe
from codeagent.core.checkpoints import ChangedFile
from codeagent.core.dataclass import dataclass
from codeagent.core.events import KnownEvent, RunReason
from codeagent.core.messages import Usage
from codeagent.core.model import ModelOpener
from codeagent.core.runtime import Session

if TYPE_CHECKING:  # few sessions run a group
    from codeagent.core.groups import Group

GivenSettings = Settings | Mapping[str, Any]
"""All settings, or those that win over the environment and the files, as in `config.toml`."""
GivenWorkspace = LocalEnvironment | Path | str
"""A folder; or one with the environment and the keys to use, if these are not the user's."""
Observer = Callable[[KnownEvent], None]


def _say_nothing(text: str) -> None:
    """A slow start is not reported."""


@dataclass(frozen=True)
class Task:
    """What is to be done without a user, and within which limits.

    What needs approval is denied, as there is nobody to ask, unless `approve` is true.
    """

    prompt: str | RunRecipe | RunGroup = ""
    workspace: GivenWorkspace = "."
    settings: GivenSettings = field(default_factory=dict)
    recipe: str = ""
    """The name of the recipe to run in place of a prompt."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Those of the recipe."""
    resume: str | None = None
    """The id of the session to continue, or the beginning of one; None begins a new one."""
    approve: bool = False
    """Approve everything; what a rule denies stays denied."""
    needs_sandbox: bool = False
    """Fail if no sandbox can be had, and wait until it is ready."""
    lists_changes: bool = True
    """Compare the files at the end with those at the beginning, for `Outcome.changes`."""


@dataclass(frozen=True)
class Outcome:
    """How a task ended."""

    reason: RunReason
    """`done`, `failed`, `limit`, `denied` or `interrupted`."""
    text: str
    """The last answer."""
    error: str | None
    """Why it ended early, if it did."""
    changes: tuple[ChangedFile, ...]
    """The files that are not as they were before the task."""
    usage: Usage
    """Of all its runs, those of agents included."""
    events: tuple[KnownEvent, ...]
    """What the session's log got, in order."""
    session: str
    """The id of its session."""


class RunReader(Protocol):
    """A front end without a screen: shows what happens, and answers what is asked."""

    def say(self, text: str) -> None:
        """Show a line about a slow start."""

    def show_outside(self, event: KnownEvent) -> None:
        """Take an event as it is emitted, also before the run."""

    async def run(self, session: Session, prompt: str | RunRecipe | RunGroup) -> object:
        """Read the run of the prompt to its end."""


class Sessions(Protocol):
    """Opens sessions, and works on tasks."""

    async def open_session(
        self,
        settings: GivenSettings,
        workspace: GivenWorkspace,
        *,
        resume: str | None = None,
        attended: bool = False,
        needs_sandbox: bool = False,
        tell: Callable[[str], None] = _say_nothing,
        observer: Observer | None = None,
        open_model: ModelOpener | None = None,
        group: "Group | None" = None,
    ) -> Session:
        """Open a session, new or resumed.

        `attended`: a user is there to ask when a limit is reached. `needs_sandbox`: wait until
        commands can run; else a failure of the sandbox's start is a notice later. `tell` gets lines
        about a slow start; `observer` gets every event. `open_model` opens the model that makes the
        calls of another program, in place of the one in the settings. `group`: the one that is to
        be run. Raises CodeagentError, and then leaves nothing running.
        """

    async def work(self, task: Task, reader: RunReader | None = None) -> Outcome:
        """Open a session, run the task to its end, and close the session.

        `reader` answers what is asked; without one, the task says how. Raises CodeagentError if the
        task cannot begin.
        """
