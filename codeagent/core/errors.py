"""The exception tree.

CodeagentError
├── ConfigError             bad command line, configuration or rule; exit code 2
├── ModelError              the model could not answer; carries what a retry needs
│   └── TranscriptError     messages that no provider would accept
├── SandboxError
│   ├── EngineError         the engine refused a request or did not answer it; carries its status
│   ├── SandboxUnavailable  no sandbox is available; carries the remedy
│   └── SandboxLost         it was lost during a command, whose effect is unknown
├── WorkspaceError          a path that the file tools will not touch, or a file that has changed
│   ├── OutsideWorkspace
│   ├── ProtectedPath
│   ├── NotAFile
│   ├── MissingPath
│   ├── ContentChanged
│   └── WorkspaceLost
├── CheckpointError         a snapshot could not be taken or restored; says what was changed
├── SessionError
│   ├── SessionNotFound
│   ├── SessionInUse
│   └── SessionWriteError   an event could not be made durable; nothing may run after it
└── RunCancelled            a cancel token fired while something was awaited

Errors a tool raises on purpose are `codeagent.core.tool.ToolError`: they become results.
"""

from typing import Literal

ModelErrorKind = Literal[
    "auth",
    "bad_request",
    "context_window",
    "content_policy",
    "rate_limit",
    "overloaded",
    "server",
    "connection",
    "timeout",
    "cut",
    "script",
    "transcript",
]


class CodeagentError(Exception):
    """Base of all errors that codeagent raises; the text is one line that the user can act on."""


class ConfigError(CodeagentError):
    """The command line, a configuration file or a rule is wrong."""


class ModelError(CodeagentError):
    """The model did not answer.

    `status` is the HTTP status if there was one; `retry_after` is in seconds;
    `retryable` says that the same request may succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.prompt_tokens: int | None = None
        """How many tokens the provider counted, if it refused the request as too long and said how
        long it is."""


class TranscriptError(ModelError):
    """The messages break the transcript invariant."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="transcript")


class SandboxError(CodeagentError):
    """Base of what goes wrong with the sandbox."""


class EngineError(SandboxError):
    """The engine did not answer, or answered with an error; `status` is its HTTP status, None
    without an answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class SandboxUnavailable(SandboxError):
    """No sandbox is available; `remedy` is what the user can do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class SandboxLost(SandboxError):
    """The container or the engine was lost during a command, whose effect is unknown.

    What the command printed until then has already been passed on.
    """


class WorkspaceError(CodeagentError):
    """A file operation that was refused; nothing was changed."""


class OutsideWorkspace(WorkspaceError):
    """The path leads out of the workspace, directly or through a link."""


class ProtectedPath(WorkspaceError):
    """The path belongs to `.git`, `.codeagent` or another protected name."""


class NotAFile(WorkspaceError):
    """The path is a directory, FIFO, socket or device where a regular file is needed."""


class MissingPath(WorkspaceError):
    """Nothing exists at the path."""


class ContentChanged(WorkspaceError):
    """The file has changed since its change was prepared."""


class PartlyChanged(WorkspaceError):
    """A change of several files was left halfway: some could not be put back."""


class WorkspaceLost(WorkspaceError):
    """The workspace was moved, replaced, unmounted or removed, or may no longer be entered.

    `moved_to` is where it is now, if that is known.
    """

    def __init__(self, message: str, moved_to: str | None = None) -> None:
        super().__init__(message)
        self.moved_to = moved_to


class CheckpointError(CodeagentError):
    """A snapshot could not be taken, compared or restored; the text says what was changed, if
    anything was."""


class SessionError(CodeagentError):
    """Base of what goes wrong with a stored session."""


class SessionNotFound(SessionError):
    """No session has that id."""


class SessionInUse(SessionError):
    """Another process has the session open; `pid` is that process if it is known."""

    def __init__(self, message: str, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class SessionWriteError(SessionError):
    """The log could not be written; the events are kept in memory."""


class RunCancelled(CodeagentError):
    """A cancel token fired; the text is its reason."""
