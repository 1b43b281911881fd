"""Acts: everything that a user, a script, `--inject` or a test can do to a conversation."""

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Literal

from codeagent.core.budget import Budget, Effort
from codeagent.core.checkpoints import Node, RestoreKind
from codeagent.core.dataclass import dataclass
from codeagent.core.json_types import MAIN
from codeagent.core.policy import Decision, Mode, NetworkLevel, Rule

if TYPE_CHECKING:  # most conversations run no recipe and no group
    from codeagent.core.groups import Group
    from codeagent.core.recipes import Recipe, Values

QueueKind = Literal["steer", "interrupt", "follow_up"]
"""When a text is delivered: at the next boundary (steer), there with the rest of the batch skipped
(interrupt), or when the agent would stop (follow_up)."""


@dataclass(frozen=True)
class Queued:
    """A text that waits for its boundary."""

    id: str
    kind: QueueKind
    text: str
    taken_out: bool = False
    """Whether the log has it leaving the queue without the message it became."""


@dataclass(frozen=True)
class Refused:
    """The answer to an act that could not be done: nothing was changed."""

    reason: str
    """One line for the user."""


@dataclass(frozen=True)
class Prompt:
    """Begin a run; None begins one with what is queued."""

    text: str | None


@dataclass(frozen=True)
class RunRecipe:
    """Begin a run for each step of a recipe, in order, until one does not end well."""

    recipe: "Recipe"
    values: "Values"
    """Its checked inputs: `Recipe.values`."""
    tightens: bool = False
    """Mode and limits were given for this session: even a recipe of the user's own only tightens
    them."""
    proceed: bool = False
    """Leave out the steps that this session's log shows as done with the same inputs."""


@dataclass(frozen=True)
class RunGroup:
    """Run a group on a task; begins a run, and is not an act that a user can do in between."""

    group: "Group"
    task: str


@dataclass(frozen=True)
class Steer:
    """Queue text for the boundary after the running batch."""

    kind: ClassVar[QueueKind] = "steer"
    text: str


@dataclass(frozen=True)
class Interrupt:
    """Skip the calls that have not started by the next boundary of the strategy, then deliver the
    text."""

    kind: ClassVar[QueueKind] = "interrupt"
    text: str


@dataclass(frozen=True)
class FollowUp:
    """Queue text for when the agent would stop."""

    kind: ClassVar[QueueKind] = "follow_up"
    text: str


@dataclass(frozen=True)
class TakeBack:
    """Remove a queued text; its `steer.delivered` gives it back."""

    queued_id: str


@dataclass(frozen=True)
class Rewrite:
    """Replace the words of a queued text; it keeps its position."""

    queued_id: str
    text: str


@dataclass(frozen=True)
class Reorder:
    """Move a queued text to a position, counted from 0, among all queued texts."""

    queued_id: str
    position: int


@dataclass(frozen=True)
class Pause:
    """Wait at the next boundary, before the next batch or request; the pause ends with its run."""


@dataclass(frozen=True)
class Resume:
    """End a pause, even one that has not begun."""


@dataclass(frozen=True)
class Step:
    """Pause before every batch, or no longer; does not end a pause."""

    on: bool


@dataclass(frozen=True)
class Stop:
    """Cancel the run and the user's own commands now; no prepared call starts afterwards."""

    reason: str = "interrupted"


@dataclass(frozen=True)
class CancelCall:
    """Cancel one running call, or one of the user's own commands; its siblings continue."""

    call_id: str
    agent: str = MAIN
    """The agent whose call it is: the name on its events."""


@dataclass(frozen=True)
class SkipCall:
    """Skip a call of the batch the run is paused before, once the pause ends; can be undone until
    then."""

    call_id: str
    reason: str = ""
    """The reason, for the model to read."""
    on: bool = True
    """False: undo it; the call runs after all."""


@dataclass(frozen=True)
class EditCall:
    """Run a call of the batch the run is paused before with other arguments, in JSON; if it was to
    be skipped, it runs after all."""

    call_id: str
    arguments: str


@dataclass(frozen=True)
class Background:
    """Move an awaited call to the background, as a job; None means the one that has run longest."""

    call_id: str | None = None


@dataclass(frozen=True)
class Answer:
    """Answer an approval request."""

    approval_id: str
    decision: Decision


@dataclass(frozen=True)
class SetMode:
    """Choose what is asked about from the next call on."""

    mode: Mode


@dataclass(frozen=True)
class SetNetwork:
    """Choose what commands with network access may reach; takes effect at once, for open
    connections too."""

    level: NetworkLevel


@dataclass(frozen=True)
class AllowRule:
    """Add an allowing rule for this session, or also for later ones in this workspace."""

    rule: str
    keep: bool = False


@dataclass(frozen=True)
class RevokeRule:
    """Remove a rule of this session or a saved one; those of a file or the command line stay."""

    rule: Rule


@dataclass(frozen=True)
class SetBudget:
    """Pause the run before a request that would exceed this amount, counted from now; None removes
    the budget."""

    budget: Budget | None


@dataclass(frozen=True)
class SetModel:
    """Use another model from the next request on; only between runs."""

    name: str
    api_base: str | None = None


@dataclass(frozen=True)
class SetEffort:
    """Set how much the model thinks from the next request on; only between runs."""

    effort: Effort


@dataclass(frozen=True)
class RunShell:
    """Run a command for the user in the sandbox; its tool events are named `shell`.

    During a run it waits for running calls that may change something, and such calls wait for it.
    """

    command: str
    shared: bool
    """The model is told what it printed, at the next boundary or prompt."""


@dataclass(frozen=True)
class StopJob:
    """Stop a job and everything it runs."""

    job_id: str


@dataclass(frozen=True)
class SendToJob:
    """Send text to a running job."""

    job_id: str
    text: str


@dataclass(frozen=True)
class StopTrigger:
    """Stop a trigger: it never fires again."""

    trigger_id: str


@dataclass(frozen=True)
class TrustTools:
    """Load the project's tool files as they are now, or stop loading any of them."""

    trusted: bool
    seen: str | None = None
    """The `Toolbox.digest` of the files that the user was asked about; None if they were not
    shown."""


@dataclass(frozen=True)
class SetToolset:
    """Turn a toolset on or off, or some of its tools; during a run from the next boundary on."""

    name: str
    on: bool
    tools: tuple[str, ...] = ()
    """Empty: all of them."""


@dataclass(frozen=True)
class TrustServers:
    """Start the MCP servers of the project's `.mcp.json` as it is now, or stop trusting it."""

    trusted: bool
    seen: tuple[str, ...] = ()
    """The files of their programs as the user was shown them, see `AgreeToServer`."""


@dataclass(frozen=True)
class GiveVariables:
    """Give a server of the project variables of the user's, for as long as the project's
    `.mcp.json` is unchanged."""

    name: str
    variables: tuple[str, ...]
    seen: tuple[str, ...]
    """What the user was shown of the server: one that has changed since then is given nothing."""


@dataclass(frozen=True)
class RestartServer:
    """End an MCP server and start it again."""

    name: str


@dataclass(frozen=True)
class AgreeToServer:
    """Accept the changed texts of an MCP server."""

    name: str
    seen: tuple[str, ...]
    """The texts as the user was shown them; one that has changed since then keeps waiting."""


ServerAct = TrustServers | GiveVariables | RestartServer | AgreeToServer


@dataclass(frozen=True)
class Restore:
    """Take files, conversation or both back to an earlier point; only between runs.

    The present is saved as a point first, so that `redo` leads back. The model is told what was
    undone.
    """

    point: str
    kind: RestoreKind
    files: bool = True
    conversation: bool = False
    paths: Collection[str] | None = None
    """Only these files; None: all that differ."""
    seen: str | None = None
    """The `Changes.present` that the user was shown; None if they were not."""


@dataclass(frozen=True)
class RestoreFile:
    """Undo a hunk: replace a file that is still `present` by `node`; only between runs."""

    path: str
    node: Node | None
    present: Node | None


@dataclass(frozen=True)
class Compact:
    """Replace the older part of the conversation with a summary: now, or at the next boundary
    during a run."""

    hint: str = ""
    """What the summary has to cover."""


@dataclass(frozen=True)
class AnswerSummary:
    """Accept the summary, as it was shown or edited; None keeps the conversation as it is."""

    summary: str | None
    seen: str | None = None
    """The summary that was shown; None: whichever waits."""


@dataclass(frozen=True)
class Pin:
    """Keep a line word for word through every compaction; the model is told of it at the next
    boundary."""

    text: str


@dataclass(frozen=True)
class Unpin:
    """Remove a pin."""

    number: int
    """From 1."""


ContextAct = Compact | AnswerSummary | Pin | Unpin


Act = (
    Prompt
    | RunRecipe
    | Steer
    | Interrupt
    | FollowUp
    | TakeBack
    | Rewrite
    | Reorder
    | Pause
    | Resume
    | Step
    | Stop
    | CancelCall
    | SkipCall
    | EditCall
    | Background
    | Answer
    | SetMode
    | SetNetwork
    | AllowRule
    | RevokeRule
    | SetBudget
    | SetModel
    | SetEffort
    | RunShell
    | StopJob
    | SendToJob
    | StopTrigger
    | TrustTools
    | SetToolset
    | TrustServers
    | GiveVariables
    | RestartServer
    | AgreeToServer
    | Restore
    | RestoreFile
    | ContextAct
)
