"""Extensions: what one feature adds to the kernel, named in a manifest and imported when it is
used."""

from collections.abc import Mapping
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from codeagent.core.dataclass import dataclass, record

SectionT = TypeVar("SectionT")
Reference = str
"""`module:name` of a function or class; what it names is imported by `resolved`."""


def resolved(reference: Reference) -> Any:
    """Import what a reference names. Raises ImportError or AttributeError."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def folder_of(shipped: str) -> Path:
    """Return the folder `package/name`, beside the package's modules. Raises ImportError."""
    package, _, name = shipped.partition("/")
    return Path(import_module(package).__file__ or "").with_name(name)


class Sections(Protocol):
    """The settings, as an extension reads its own section."""

    def section(self, name: str, kind: type[SectionT]) -> SectionT:
        """Return what the section holds; `kind()` if it was not given."""


@record
class OfferedSet:
    """A set of tools that `[toolsets] offer` lets the model turn on, and `use` turns on from the
    start."""

    name: str
    about: str
    """One line for the model."""
    tools: tuple[str, ...]
    """The names of its tools, which are known before anything is imported."""
    make: Reference
    """Of a function from a `tools.extension.ExtensionContext` to the tools, in that order."""
    needs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """For a tool that is there only if a setting is: the section and the key."""
    beside: tuple[str, ...] = ()
    """The names of tools that only some agents have, and that the set itself does not."""
    by_reads: bool = False
    """What its tools may do depends on what was read, so each agent has them for itself."""
    by_files: bool = False
    """It is also there beside other sets if the extension has files."""


@record
class FileKind:
    """Files that bring tools or agents, in folders of the user and of a project; several kinds may
    share a folder."""

    suffixes: tuple[str, ...]
    own: str
    """The folder of the user's, below their folder of settings."""
    project: tuple[tuple[str, ...], ...]
    """The folders of a project, each as its parts."""
    make: Reference
    """Of a function from `LoaderNeeds` to a ToolLoader (`codeagent.tools.folders`), called at
    each such file."""
    brings: Literal["tools", "agents"] = "tools"
    look: Reference = ""
    """Of a function from a ToolFile to the names of its tools and their problems, which runs
    nothing of it; empty if loading the file runs nothing either."""
    packages: Reference = ""
    """Of a function from an OutputStore and the entry points of the group `codeagent.tools` to what
    these load: tools that installed packages bring instead of files."""


@record
class Subcommand:
    """`codeagent NAME`, or an action of another command: `codeagent OF NAME`.

    A name such as `--by` makes it an option of that command, whose work it then does; its `main`
    returns None if the option was not given.
    """

    name: str
    about: str
    """What it does, in the list of commands."""
    module: str
    """Has `add_arguments` and `main`; see `codeagent.cli.CommandModule`. An action finds its name
    in `args.action`."""
    of: str = ""
    """The command that it is an action of, if that takes those of extensions; empty: it is a
    command of its own."""
    after: str = ""
    """The action that it follows in the help of that command; empty: it is the last."""

    @property
    def words(self) -> str:
        """What follows `codeagent`."""
        return f"{self.of} {self.name}".lstrip()


class ProjectFiles(Protocol):
    """Files of a project that are used only once the user trusts them as they are."""

    def untrusted(self) -> tuple[str, ...]:
        """Return what is not trusted as it is now, a name each. Raises ConfigError."""

    def trust(self) -> object:
        """Trust them as they are now. Raises ConfigError."""

    def distrust(self) -> object:
        """Stop trusting them. Raises ConfigError."""


FindingState = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """A line of `codeagent doctor`."""

    name: str
    state: FindingState
    text: str
    """What was found and, for a problem, what to do about it."""


CommandGroup = Literal["conversation", "model and money", "screen", "about"]
"""The headings of /help."""


@record
class SlashCommand:
    """`/NAME` on the screen."""

    name: str
    about: str
    """One line for the user, no full stop."""
    does: Reference
    """Of an async function that takes the chat screen (`codeagent.tui.pages.chat`) and the
    argument, and returns once the pages it opened are closed."""
    arguments: str = ""
    """What may follow the command, such as `[text]`."""
    aliases: tuple[str, ...] = ()
    group: CommandGroup = "about"
    after: str = ""
    """The command that it follows in /help; if empty, it is the last of its group."""
    while_running: bool = True
    """It can be used while the agent is working."""
    needs_conversation: bool = False
    """It waits until there is a conversation."""


@record
class PageKey:
    """A key of an extension's page."""

    name: str
    """The action of the page's class; with its scope in front, also the name in `keys.yaml`."""
    about: str
    """One line for the user, no full stop."""
    keys: tuple[str, ...]
    """The default keys, as Textual spells them."""
    approves: bool = False
    """It makes something run, so Enter or Space alone never triggers it."""
    replaces: tuple[str, ...] = ()
    """Names in `keys.yaml` that it replaces: a file that has one of them is told its own."""


@record
class PageKeys:
    """The keys of an extension's page: one scope of the key sheet and of `keys.yaml`."""

    scope: str
    heading: str
    """What the key sheet calls the page."""
    keys: tuple[PageKey, ...]
    after: str = ""
    """The scope that it follows in the key sheet; if empty, it is the last."""


@record
class ScreenOption:
    """An option of `codeagent` without a command, which opens the screen."""

    name: str
    """Without the dashes."""
    metavar: str
    about: str
    """In the help."""
    work: Reference
    """Of a function from the folder and the value to a context manager around the screen, which
    yields the folder that the screen works in; None if no screen is to be shown. Raises
    CodeagentError."""
    value_optional: bool = False
    """Whether the value may be left out; it is then empty."""


@record
class OnScreen:
    """What an extension adds to the screen."""

    commands: tuple[SlashCommand, ...] = ()
    offers: Reference = ""
    """Of an async function from the session client (`codeagent.tui.session_client`) to further rows
    of the table of slash commands, which depend on the workspace. Raises CodeagentError."""
    pastes: Reference = ""
    """Of an async function from the workspace and a pasted text, or None for the image on the
    clipboard, to what is inserted in its place; empty if nothing is. Only one extension may have
    it."""
    keys: tuple[PageKeys, ...] = ()
    beside: Reference = ""
    """Of an async function that takes the chat screen, and runs from when the screen has started
    until the conversation is left; it is then cancelled."""
    options: tuple[ScreenOption, ...] = ()
    cards: Reference = ""
    """Of a function that makes what shows the events of other agents in a conversation; see
    `codeagent.tui.reduce.AgentCards`."""
    follower: Reference = ""
    """Of a function from the settings (`Sections`), the workspace and a `core.attention.Terminal` to
    a `core.attention.Follower`. Called after the first frame, so what it imports is little."""


@record
class RunOption:
    """An option of `codeagent run` for work other than a prompt, or for what such work needs."""

    name: str
    """Without the dashes."""
    metavar: str
    about: str
    """In the help."""
    many: bool = False
    """It may be repeated."""
    work: Reference = ""
    """Of a function from the arguments, the settings, the local environment and the App to the work
    and the settings for it, which raises ConfigError; empty for what only other options read."""
    alone: str = ""
    """The error if it is given together with another of these options, or to resume a session."""
    completes: Reference = ""
    """How a shell completes it; see `codeagent.commands.arguments.completed_by`."""
    idle: str = ""
    """The error if it is given without an option that names the work."""


@record
class InConversations:
    """What an extension adds to each conversation."""

    parts: Reference = ""
    """Of a function from an `agent.parts.Opening` to the `agent.parts.ConversationPart`s of one
    conversation. It is called for each conversation, so what it imports is little."""
    acts: Mapping[str, Reference] = field(default_factory=dict)
    """For the name of a class of `core.acts`, or of other work that a run is begun with: a function
    from the conversation's `agent.parts.Host` and the act to what became of it."""
    for_steps: Mapping[str, Reference] = field(default_factory=dict)
    """Tools that only the steps of recipes that name them have: for the name of each, a function
    from the conversation's `agent.parts.Host` to the tool."""
    mentions: Reference = ""
    """Of an async function from the conversation's `agent.parts.Host` and a text with an `@` to
    what the text mentions (`core.runtime.Mentioned`). Only one extension may have it."""
    remarks: Reference = ""
    """Of a function from a `tools.extension.ExtensionContext` to the code and text of each notice
    that a conversation begins with."""
    switches: Reference = ""
    """Of a function from the conversation's `tools.toolsets.Toolsets` to the tools that list sets
    and turn them on; called once there is a set."""


@record
class InFolders:
    """What an extension keeps in folders of the user, of a project and of the state."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Where the user's files for this extension are, below their folder of settings, and what
    `codeagent config path --all` calls each; empty: it leaves it out."""
    project: tuple[str, ...] = ()
    """Where a project's are. If none of either exists, `sources` and `remarks` are not asked."""
    for_parts: bool = False
    """Then the `parts` for conversations are not asked either."""
    trust: Reference = ""
    """Of a function from a `LocalEnvironment` to the `ProjectFiles` that `codeagent tools trust`
    and `distrust` are also about."""
    check: Reference = ""
    """Of a function from a path, and its name in messages, that does what `codeagent tools check`
    does for a file of its kind, and returns the exit code; None for a file of another kind. It
    blocks."""
    kinds: tuple[FileKind, ...] = ()
    prompts: Reference = ""
    """Of a function from a `LocalEnvironment`, and the folders of recipes that ship, to a
    `core.recipes.Recipes`: prompts that the user runs by name."""
    shipped: str = ""
    """The folder of recipes that ship, as `package/name`; see `folder_of`."""
    leftovers: Mapping[str, Reference] = field(default_factory=dict)
    """For a folder below that of the state: a function that removes from it what a crash left, and
    is called, if there is such a folder, before a session is opened."""


@record
class Extension:
    """The manifest of an extension. Every part is optional, and costs nothing until it is used.

    It is `EXTENSION` in `codeagent/extensions/NAME/__init__.py`, or what an entry point of the
    group `codeagent.extensions` names.
    """

    name: str
    about: str
    """One line for the user."""
    settings: Mapping[str, Reference] = field(default_factory=dict)
    """The sections of the settings files that are the extension's own, and the model of each."""
    in_conversations: InConversations = InConversations()
    in_folders: InFolders = InFolders()
    sets: tuple[OfferedSet, ...] = ()
    sources: Reference = ""
    """Of a function from a `tools.extension.ExtensionContext` to ToolSources. It looks at settings
    and small files only; it starts nothing and waits for nothing, as `ToolSource.start` does."""
    models: Reference = ""
    """Of a function from a `Model` that was opened, what is known of its server
    (`llm.server_knowledge.ServerKnowledge`) and the settings (`Sections`) to the `Model` that is
    asked in its place."""
    at_provider: Reference = ""
    """Of a function from the settings to `llm.provider_tools.ProviderTools`: how requests declare
    the tools that a provider runs itself, and what answers say they did. One extension has it."""
    subcommands: tuple[Subcommand, ...] = ()
    run_options: tuple[RunOption, ...] = ()
    screen: OnScreen = OnScreen()
    image: Reference = ""
    """Of an `OpenImageSource` of `codeagent.sandbox.described_image`; the first extension that has
    one decides which image a sandbox gets."""
    doctor: Reference = ""
    """Of a function from the workspace to what `codeagent doctor` reports, a sequence of `Finding`;
    it blocks, and belongs in a thread."""
    when_off: str = ""
    """What `codeagent doctor` says while the extension is switched off."""
