"""What a run is told before it starts: flags, environment and files, made into one frozen value."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from codeagent.core.policy import Mode

PositiveInt = Annotated[int, Field(gt=0, strict=True)]
PositiveFloat = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
StrategyText = Annotated[str, Field(pattern=r"^(sequential|parallel|batched:[1-9][0-9]{0,5})$")]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]")]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LimitSettings(Section):
    max_turns: PositiveInt = 200
    max_calls: PositiveInt = 1000
    timeout_per_call: PositiveFloat | None = None
    """Seconds."""
    budget: PositiveFloat | None = None
    """US dollars per run."""


class RuleSettings(Section):
    """Rules as text, `tool` or `tool(pattern)`."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class SandboxSettings(Section):
    kind: Literal["docker", "off"] = "docker"
    """`off` comes from the command line only."""
    image: str | None = None
    """None: found or made as `codeagent sandbox status` says."""
    lifetime: Literal["session", "command"] = "session"
    """`command`: every command gets a fresh container."""


class HookSettings(Section):
    """A program that is asked, or told, about tool calls; see docs/how-to/hooks.md."""

    event: Literal["before_tool", "after_tool", "before_update", "after_update"]
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    """Program and arguments; it runs in the workspace, on this machine."""


class Settings(Section):
    model: Annotated[str, Field(min_length=1)] | None = None
    api_base: Url | None = None
    mode: Mode = "ask"
    strategy: StrategyText = "parallel"
    limits: LimitSettings = LimitSettings()
    rules: RuleSettings = RuleSettings()
    sandbox: SandboxSettings = SandboxSettings()
    hooks: tuple[HookSettings, ...] = ()
    theme: Annotated[str, Field(min_length=1)] | None = None
    """Of the screen; None: its own default."""
    bell: bool = True
    """The terminal's bell, once, when the person is waited for."""
