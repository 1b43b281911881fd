"""The settings of a run: flags, environment and files, made into one frozen value."""

import re
from dataclasses import field, fields
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from codeagent.config.checking import AsGiven, above, as_given, at_least, at_most, filled, matching
from codeagent.core.budget import as_seconds
from codeagent.core.dataclass import dataclass, record
from codeagent.core.patterns import checked_names
from codeagent.core.policy import HookEvent, Mode, NetworkLevel, ToolHookEvent, tighter

SectionT = TypeVar("SectionT")
PositiveInt = Annotated[int, above(0)]
PositiveFloat = Annotated[float, above(0)]
NonNegative = Annotated[float, at_least(0)]
Name = Annotated[str, filled("text")]
StrategyText = Annotated[
    str,
    matching(
        r"^(sequential|parallel|batched:[1-9][0-9]{0,5})$", "use sequential, parallel or batched:N"
    ),
]


Seconds = Annotated[float, AsGiven(as_seconds), above(0)]
"""A number, or text such as `30s`."""


def _check_host(text: str) -> str:
    from codeagent.core.hosts import HostRule  # brings ipaddress, and few configurations name hosts

    HostRule.configured(text)
    return text


ConfiguredHost = Annotated[str, _check_host]
Url = Annotated[str, matching(r"^https?://[^\s/]", "must begin with http:// or https://")]


STATUS_FIELDS = ("model", "mode", "branch", "context", "cost", "cache", "jobs", "command")
"""The fields that a template of the status line may name."""


def _status_template(text: str) -> str:
    from string import Formatter  # few configurations have a template

    fields = f"the fields are {{{'}, {'.join(STATUS_FIELDS)}}}"
    try:
        found = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"not a template: {error}; {fields}") from error
    for _, name, spec, conversion in found:
        if name is not None and (name not in STATUS_FIELDS or spec or conversion):
            raise ValueError(f"no such field {{{name}}}; {fields}")
    return text


def _set_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) is None:
        raise ValueError("the name of a toolset is 1 to 64 letters, digits, dots, _ or -")
    return name


ToolNames = Annotated[tuple[str, ...], checked_names]
"""Names of tools, and patterns over names."""


class Section:
    """Base of the tables of settings; each is a frozen dataclass that `checked` reads."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@record
class LimitSettings(Section):
    max_turns: PositiveInt = 200
    """Requests to the model in one run."""
    max_calls: PositiveInt = 1000
    """Tool calls in one run."""
    timeout_per_call: Seconds | None = None
    """Seconds after which a call is stopped."""
    budget: PositiveFloat | None = None
    """US dollars per run."""
    max_tokens: PositiveInt | None = None
    """Of input and output together, per run."""
    max_seconds: Seconds | None = None
    """Wall-clock time, per run."""
    model_timeout: Seconds = 300.0
    """Seconds without a word from the model, repeated attempts included, after which a request is
    given up."""
    max_concurrency: PositiveInt = 8
    """Calls that run at the same time; further ones wait."""
    max_repeated_tokens: PositiveInt = 500
    """For how many tokens an answer may repeat the same span. Then you are told; without a screen
    it is stopped."""
    network_bytes: PositiveInt = 1024**3
    """What one command may send and receive, together."""


LIMITS = tuple(each.name for each in fields(LimitSettings))


@record
class ContextSettings(Section):
    """When an older part of the conversation gives way to a summary; see docs/how-to/context.md."""

    compact_at: Annotated[float, above(0), at_most(1)] = 0.8
    """The share of the model's window that may be full."""
    review: bool = True
    """The screen shows a summary, and lets you edit it, before it replaces anything."""
    review_seconds: Seconds = 30.0
    """How long that waits for you in mode auto; then the summary is used."""
    window: PositiveInt | None = None
    """Tokens; None: what is known about the model. For a local server that was started with a
    smaller one."""


@record
class QueueSettings(Section):
    """How many of the texts that you queue are delivered at one boundary; see
    docs/how-to/steer-and-stop.md."""

    steer: Literal["all", "one"] = "all"
    """How many of those that steer a run."""
    follow_up: Literal["all", "one"] = "one"
    """How many of those that wait until the agent is done."""


@record
class RuleSetting(Section):
    """One rule: its text, or a table that also says what it is for. The examples are tried when it
    is loaded."""

    rule: str
    """`tool` or `tool(pattern)`."""
    matches: tuple[str, ...] = ()
    """Commands, paths or arguments that the rule must decide."""
    never: tuple[str, ...] = ()
    """Those it must leave alone."""

    @classmethod
    def from_given(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"rule": value}
        if isinstance(value, dict):
            return value
        raise ValueError("a rule is text, or a table with rule, matches and never")

    def as_given(self) -> Any:
        """Return only the text of a rule without examples."""
        full = {"rule": self.rule, "matches": list(self.matches), "never": list(self.never)}
        return full if self.matches or self.never else self.rule


@record
class RuleSettings(Section):
    """The rules of one place."""

    allow: tuple[RuleSetting, ...] = ()
    ask: tuple[RuleSetting, ...] = ()
    deny: tuple[RuleSetting, ...] = ()


@record
class RuleLayers(Section):
    """The rules of every place; each field is the `RuleOrigin` they get."""

    flag: RuleSettings = RuleSettings()
    user: RuleSettings = RuleSettings()
    project: RuleSettings = RuleSettings()
    """`allow` is empty: a project may only tighten."""


def _one_host(text: str) -> str:
    from codeagent.core.hosts import HostRule  # as in `_check_host`

    rule = HostRule.parse(text)
    if rule.is_any or rule.below:
        raise ValueError(f"{text!r}: name one host, as in mirror.example.org:443")
    return text


@record
class SandboxSettings(Section):
    kind: Literal["docker", "off"] = "docker"
    """`off` comes from the command line only."""
    image: str | None = None
    """`repository`: the one that the repository describes, and no other. None: found or made as
    `codeagent sandbox status` says."""
    approval: Literal["effects", "text"] = "effects"
    """`effects`: a command that nobody decided about is tried out, and what it would change is
    asked about. `text`: the command is asked about before it runs."""
    ignored_files: Literal["take", "ask"] = "take"
    """What is done about files that such a command changed and the ignore rules leave out; a
    project may set `ask`."""
    lifetime: Literal["session", "command"] = "session"
    """`command`: every command gets a fresh container."""
    network: NetworkLevel = "ask"
    """What commands with network access may reach; a project can only tighten it."""
    package_bytes: Annotated[int, at_least(0)] = 2 * 1024**3
    """What the package cache of one workspace may take on the disk; 0: there is none."""


@record
class NetworkSettings(Section):
    """What commands with network access may reach beyond the public hosts; see
    docs/how-to/network.md."""

    private_hosts: tuple[Annotated[str, _one_host], ...] = ()
    """Hosts whose addresses may be private, such as `mirror.corp:443`; without a port, 80 and 443.
    The user's only."""


def _no_file_of_the_project(command: tuple[str, ...]) -> tuple[str, ...]:
    if "/" in command[0] and not command[0].startswith("/"):
        raise ValueError(
            "give the full path of the program: a relative one would be a file of the project"
        )
    return command


@record
class HookSettings(Section):
    """A program that is asked, or told, at one point of a session; see docs/how-to/hooks.md."""

    event: HookEvent
    command: Annotated[tuple[str, ...], filled("list"), _no_file_of_the_project]
    """Program and arguments; it runs on this machine. The program is an absolute path or a name."""
    tools: Name = "*"
    """Of which tools, as a pattern over their names; only if the event is about a call."""
    in_workspace: bool = False
    """It runs in the workspace, from which it may load code; else in a folder where there is
    nothing to load."""
    variables: tuple[str, ...] = ()
    """Names of your variables that it gets, beside a minimal environment."""

    def __post_init__(self) -> None:
        if self.tools != "*" and self.event not in get_args(ToolHookEvent):
            raise ValueError(f"tools cannot be given for {self.event}")


@record
class ToolsetGroupSetting(Section):
    """Some tools of one source as a set of their own: those that fit any of the names, tags and
    paths."""

    source: Name
    """A server, document or other set, by its name."""
    tools: ToolNames = ()
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Patterns over the paths of operations, such as `/users/*`."""
    about: str = ""
    """One line for the model."""

    def __post_init__(self) -> None:
        if not (self.tools or self.tags or self.paths):
            raise ValueError("give tools, tags or paths")


@record
class ToolsetSettings(Section):
    """Sets of further tools; see docs/how-to/toolsets.md."""

    use: tuple[Name, ...] = ()
    """Turned on from the start, in this order."""
    offer: tuple[Name, ...] = ()
    """Sets of built-in tools that the model may turn on."""
    require_info: bool | ToolNames = False
    """Tools that are refused until the model has read their documentation with `info`: true for
    those of sets, or a list of names and patterns."""
    groups: dict[Annotated[str, _set_name], ToolsetGroupSetting] = field(default_factory=dict)
    """Further sets, by name."""


@record
class ExperimentalSettings(Section):
    """What may still change, or go; all of it is off unless it is set."""

    partial_results: Seconds | None = None
    """Seconds after which a call that is still printing becomes a job; see docs/how-to/jobs.md."""


@record
class PriceSetting(Section):
    """US dollars per million tokens."""

    input: NonNegative
    output: NonNegative
    cache_read: NonNegative | None = None
    """None: as `input`."""
    cache_write: NonNegative | None = None
    """None: as `input`."""


@record
class WebHosts(Section):
    """Of the section `web`, what every tool that makes web requests goes by."""

    private_hosts: tuple[ConfiguredHost, ...] = ()
    """Hosts that may be reached although their addresses are not public, such as
    `localhost:8000`."""
    secrets: dict[str, tuple[ConfiguredHost, ...]] = field(default_factory=dict)
    """The hosts to which each secret may be sent, by its name: a variable, or a key that is
    kept."""


@record
class ExtensionSettings(Section):
    """Which extensions are there; see docs/how-to/extensions.md."""

    off: tuple[Name, ...] = ()
    """Those that are switched off."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Section):
    """Which model is asked, and how."""

    model: Name | None = None
    """The model to use, as `--model` names it."""
    api_base: Url | None = None
    """The address of the model's server; None: its provider's."""
    fallback_model: Name | None = None
    """Takes over once `model` is overloaded or refused after its retries."""
    thinking: Literal["off", "low", "medium", "high"] | PositiveInt | None = None
    """A level, or a budget in tokens; None leaves it to the provider."""
    wire: Literal["auto", "litellm"] = "auto"
    """`auto` sends requests straight to the providers that this works with, `litellm` all through
    litellm."""


@dataclass(frozen=True, kw_only=True)
class CommonSettings(ModelSettings):
    """What a file and a run have in common: everything but the screen and the
    shape of the rules."""

    mode: Mode = "ask"
    """What runs without asking."""
    strategy: StrategyText = "parallel"
    """How the calls of one answer run: one after the other, side by side, or N at a time."""
    early_reads: bool = True
    """Calls that only read begin while the answer that asks for them is still coming; see
    docs/how-to/tools.md."""
    limits: LimitSettings = LimitSettings()
    context: ContextSettings = ContextSettings()
    queue: QueueSettings = QueueSettings()
    sandbox: SandboxSettings = SandboxSettings()
    network: NetworkSettings = NetworkSettings()
    extensions: ExtensionSettings = ExtensionSettings()
    prices: dict[str, PriceSetting] = field(default_factory=dict)
    """By the model's name as it is given to `--model`; they go before what is known of a model."""
    hooks: tuple[HookSettings, ...] = ()
    toolsets: ToolsetSettings = ToolsetSettings()
    experimental: ExperimentalSettings = ExperimentalSettings()
    read_only_commands: Literal["allow", "ask"] = "allow"
    """What is done about commands that are known to only read, in the sandbox; a project may set
    `ask`."""
    commit_hooks: bool = False
    """The repository's own git hooks run when the agent commits: on this machine, outside the
    sandbox."""


@dataclass(frozen=True, kw_only=True)
class EditorSettings(Section):
    """How your editor is started; see docs/how-to/editor.md."""

    open: Name | None = None
    """The command that opens `{file}` at `{line}`; None: `$VISUAL` or `$EDITOR`."""
    diff: Name | None = None
    """The command that shows `{before}` and `{after}` side by side, and ends once you are done."""

    def __post_init__(self) -> None:
        for command, needed in ((self.open, ("{file}",)), (self.diff, ("{before}", "{after}"))):
            if lacking := [each for each in needed if command and each not in command]:
                raise ValueError(f"the command needs {' and '.join(lacking)}")


@dataclass(frozen=True, kw_only=True)
class ScreenSettings(Section):
    """What the screen goes by, and nothing else."""

    theme: Name | None = None
    """Of the screen; None: its own default."""
    bell: bool = True
    """The terminal's bell, once, when the user is waited for."""
    editor: EditorSettings = EditorSettings()
    status_line: Annotated[str, filled("text"), _status_template] | None = None
    """A template such as `{model} | {branch} | {cost}`, instead of the figures of the status line;
    see docs/how-to/status-line.md."""
    status_command: Annotated[tuple[str, ...], filled("list"), _no_file_of_the_project] | None = (
        None
    )
    """A program of this machine and its arguments, whose first line is the field `{command}`."""

    @property
    def status_template(self) -> str | None:
        """The template to use: `{command}` alone if only the program is set."""
        return self.status_line or ("{command}" if self.status_command else None)


@dataclass(frozen=True, kw_only=True)
class FileSettings(ScreenSettings, CommonSettings):
    """What the user's file may hold; a project's, only what tightens."""

    rules: RuleSettings = RuleSettings()
    tools: ToolNames | None = None
    """The tools that may be used; None: all."""


@dataclass(frozen=True, kw_only=True)
class Settings(ScreenSettings, CommonSettings):
    """The settings of a run, from all places."""

    rules: RuleLayers = RuleLayers()
    tools: tuple[ToolNames, ...] = ()
    """Lists of the tools that may be used: a tool must be in all of them. The first is the user's,
    `*` if only the project has one; it alone says which sets there are."""
    network_given: bool = False
    """The command line says what commands may reach: a session that is resumed does not tighten
    it."""
    toolsets_given: tuple[str, ...] = ()
    """Those of `toolsets.use` that the command line names: on even if a resumed session had turned
    them off."""
    origins: dict[str, str] = field(default_factory=dict)
    """Where each setting that is not a default comes from: the command line, a variable or a file;
    rules are listed by their origin anyway."""
    wait_for_triggers: bool = False
    """A run without a user ends only once no trigger is left; comes from the command line only."""
    sections: dict[str, Any] = field(default_factory=dict)
    """What the sections of extensions hold, by the section's name; see `section`."""
    unused: tuple[str, ...] = ()
    """What was given and nobody reads, and why; one line each."""

    def section(self, name: str, kind: type[SectionT]) -> SectionT:
        """Return what an extension's section holds; its defaults if it was not given."""
        found: SectionT = self.sections[name] if name in self.sections else kind()
        return found

    def as_given(self) -> dict[str, Any]:
        """Return every section at its own name, as in a file."""
        plain = {each.name: as_given(getattr(self, each.name)) for each in fields(self)}
        sections: dict[str, Any] = plain.pop("sections")
        return plain | sections

    def network_after(self, before: NetworkLevel | None) -> NetworkLevel:
        """What commands may reach in a session that ended with `before`: no more than that, unless
        a flag says so."""
        level = self.sandbox.network
        return level if before is None or self.network_given else tighter(level, before)
