"""What the screen asks of a conversation, in plain values: importing this costs nothing before the first frame."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from codeagent.core.budget import Effort
from codeagent.core.ledger import LedgerRow
from codeagent.core.policy import Decision, Rule
from codeagent.core.rewind import Rewind
from codeagent.tui.stage import Stage

if TYPE_CHECKING:  # it loads pydantic, which the first frame does without
    from codeagent.core.toolbox import Toolbox

Mode = Literal["ask", "accept-edits", "plan", "auto"]


@dataclass(frozen=True)
class Wish:
    """What the command line asked for; None leaves it to the settings."""

    model: str | None = None
    api_base: str | None = None
    fallback_model: str | None = None
    thinking: Effort | None = None
    mode: str | None = None
    sandbox: str | None = None
    theme: str | None = None
    resume: str | None = None
    """A session's id, or the beginning of one."""
    proceed: bool = False
    """The person said yes to a folder that is no project."""
    read_git: bool | None = None
    """What the user said about a git directory outside the workspace; None where that was not asked."""
    prompt: str = ""
    """Text that waits in the composer at the start."""
    step: bool = False
    """Pause before every batch from the beginning."""


@dataclass(frozen=True)
class SessionRow:
    """One line of the session picker."""

    id: str
    modified: float
    """Seconds since the epoch."""
    prompt: str
    model: str
    in_use: bool


@dataclass(frozen=True)
class ModelRow:
    """One line of the model picker."""

    name: str
    """What `--model` takes."""
    about: str
    """Where it runs, what is missing."""
    ready: bool
    """Its key is there, or it needs none."""
    api_base: str | None = None


@dataclass(frozen=True)
class Missing:
    """Why no conversation can begin yet, and what would help."""

    kind: Literal["model", "key", "place", "git", "session", "error"]
    """git: whether commands may read a git directory outside the workspace; session: the one to continue cannot be
    opened."""
    text: str
    """One line: what is missing."""
    variable: str = ""
    """The environment variable of the key that is missing."""
    servers: tuple[ModelRow, ...] = ()
    """Local servers that answered on loopback."""


class Talk(Protocol):
    """The person's side of one conversation. Methods return at once unless they are `async`.

    Everything that happens shows on the `Stage`. Errors a person caused are shown there as well;
    only `open` raises, and then CodeagentError.
    """

    @property
    def running(self) -> bool:
        """A run is going on."""

    async def open(self, wish: Wish) -> Missing | None:
        """Read settings, show the recorded session if one is resumed, begin to start model and sandbox.

        Returns before they are ready. Raises CodeagentError.
        """

    @property
    def started(self) -> bool:
        """Model and sandbox are there: what is asked of it is done."""

    async def start_up(self) -> None:
        """Return once it has started. Raises CodeagentError where it will not."""

    def send(self, text: str) -> None:
        """Begin a run; where nothing has started, the text returns to the composer."""

    def steer(self, text: str) -> None: ...

    def interrupt(self, text: str) -> None: ...

    def follow_up(self, text: str) -> None: ...

    def take_back(self, queued_id: str) -> str | None: ...

    def pause(self) -> None:
        """Wait at the next boundary."""

    def go_on(self) -> None: ...

    def abort(self) -> None:
        """Stop now: the run, or the shell command."""

    def answer(self, approval_id: str, decision: Decision) -> bool:
        """False where the question is no longer pending."""

    def step(self, on: bool) -> None:
        """Pause before every batch, or no more."""

    def skip_call(self, call_id: str, reason: str = "") -> bool:
        """Of the batch the run is paused before; False where there is none."""

    def amend_call(self, call_id: str, arguments: str) -> str:
        """Other arguments (JSON) for it; empty, or what does not fit: it stays as it was then."""

    def correct(self, text: str) -> None:
        """Skip the batch the run is paused before, say this to the model, and go on."""

    def start_plan(self, text: str, mode: Mode) -> None:
        """Leave plan mode for this one and carry out the plan."""

    def set_budget(self, text: str) -> str:
        """`$2`, `200k tokens`, `30 min`, `10 batches` or `off`; one line about what holds. Raises ConfigError.

        The empty text changes nothing and says what is left.
        """

    def rewrite(self, queued_id: str, text: str) -> bool: ...

    def move(self, queued_id: str, position: int) -> bool:
        """To that place (from 0) among all that waits."""

    def rules(self) -> tuple[Rule, ...]:
        """In force."""

    async def allow(self, rule: str, *, keep: bool) -> None:
        """For this session, or also for later ones in this workspace. Raises ConfigError."""

    async def revoke(self, rule: Rule) -> None:
        """Raises ConfigError."""

    async def decisions(self) -> tuple[LedgerRow, ...]:
        """Every decision of this session so far, oldest first."""

    @property
    def rewind(self) -> Rewind:
        """Raises CheckpointError where no checkpoints are kept, or not yet."""

    def set_mode(self, mode: Mode) -> None: ...

    def shell(self, command: str, *, shared: bool) -> None:
        """Run a command of the person's own in the sandbox; `shared` shows it to the model."""

    async def use_model(self, row: ModelRow) -> Missing | None: ...

    async def set_effort(self, text: str) -> str:
        """`off`, `low`, `medium`, `high` or a number of tokens; one line about what holds. Raises CodeagentError.

        The empty text changes nothing.
        """

    async def keep_key(self, variable: str, value: str) -> str:
        """Try a key and keep it; shows, and returns, how it went and where it is. Raises CodeagentError."""

    async def sessions(self) -> tuple[SessionRow, ...]:
        """Those of this workspace, the latest first."""

    async def models(self) -> tuple[ModelRow, ...]: ...

    async def files(self) -> tuple[str, ...]:
        """Paths of the workspace that are not ignored, for `@`; directories end with a slash."""

    async def full_output(self, call_id: str) -> str | None:
        """The whole text of a call's result, also what was too long for the model; None where it is gone."""

    def promote(self, call_id: str | None = None) -> bool:
        """Move a call that is waited for to the background, None: the one that has run longest; False where none is.

        Raises CodeagentError.
        """

    def job_lines(self) -> Mapping[str, int]:
        """Lines each job that runs printed so far, by its id; what comes too fast to be shown is counted."""

    async def job_output(self, job_id: str) -> str | None:
        """All a job printed so far; None where it is gone. Raises CodeagentError."""

    async def stop_job(self, job_id: str) -> None:
        """Returns once nothing of it runs. Raises CodeagentError."""

    def send_to_job(self, job_id: str, text: str) -> bool:
        """Give it text; False where it takes none, or has ended. Raises CodeagentError."""

    def toolbox(self) -> "Toolbox | None":
        """The tools in use; None where they cannot change. Raises CodeagentError."""

    async def trust_tools(self, trusted: bool) -> None:
        """Load the project's tool files as they are now, or none of them any more. Raises CodeagentError."""

    def facts(self, about: Literal["status", "cost", "context", "config", "tools", "skills"]) -> str:
        """Markdown for the slash command of that name."""

    async def close(self) -> None:
        """End the run, the model's connections and the sandbox; idempotent."""


OpenTalk = Callable[[Stage], Awaitable[Talk]]
"""Makes the conversation; called after the first frame, so that nothing heavy is imported before."""
