"""The sources of further tools that a conversation has: those that extensions bring, imported only if
they are configured.

A function that an extension names in `Extension.sources` is called in a thread before every
conversation, and by `codeagent tools list`. It looks at settings and small files, and imports more
only if these ask for it: a conversation without such configuration loads nothing. It starts nothing
and waits for nothing: `ToolSource.start` does, beside the first request. What takes long to import
or to make is wrapped in a `LateSource`. What is configured wrongly is a ConfigError; what cannot be
reached is a problem in the listing of its source.

A set of built-in tools is an `OfferedSet`. It is there if the settings name it: `[toolsets] offer`
lets the model turn it on, `use` turns it on from the start.
"""

from collections.abc import Container, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.agent.approvals import UserQuestions
from codeagent.agent.parts import AgentServices, ConversationPart, Opening, Parts
from codeagent.app.sandbox import CodedText, StartedSandbox, told_at_start
from codeagent.app.tools import ToolDependencies
from codeagent.config.extensions import BUILT_IN, all_extensions
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.extension import Extension, InFolders, OfferedSet, resolved
from codeagent.core.json_types import JsonObject
from codeagent.core.notices import TOOLSET_USE
from codeagent.core.patterns import AllowList
from codeagent.core.policy import Rule
from codeagent.core.sandbox import Sandbox
from codeagent.core.sanitize import one_line, visible
from codeagent.core.tool import Tool
from codeagent.disk.opens import may_exist
from codeagent.session.fold import History
from codeagent.tools.catalog import CatalogChange, ToolCatalog
from codeagent.tools.choices import Choice
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.toolsets import Toolsets

if TYPE_CHECKING:
    from codeagent.core.groups import Group
    from codeagent.tools.grouping import ToolGroup
    from codeagent.tools.source import BuiltInSet, ToolSource  # many conversations have no source

_SENDING = "messages"
"""The set that a group needs."""


def _built_in_sets(dependencies: ToolDependencies) -> "list[BuiltInSet]":
    """Every set of built-in tools, whether it is offered or not; nothing of it is imported yet."""
    return [_set_of(one, dependencies) for one in dependencies.extensions.sets.values()]


def _set_of(one: OfferedSet, dependencies: ToolDependencies) -> "BuiltInSet":
    from codeagent.tools.source import BuiltInSet  # few conversations are offered a set

    make = partial(_made, one, dependencies)
    return BuiltInSet(one.name, one.about, _tools_of(one, dependencies.settings), make)


def _unused(dependencies: ToolDependencies) -> Iterator[str]:
    """Yield a line for each setting that nobody reads, and for each set that a file names although
    its extension is switched off."""
    settings, off = dependencies.settings, dependencies.extensions.sets_off
    yield from settings.unused
    for key in ("offer", "use"):
        for name in getattr(settings.toolsets, key):
            if name in off:
                why = f"because the extension {off[name]} is switched off"
                yield f"toolsets.{key}: set {name} is not available, {why}"


def open_services(
    settings: Settings,
    local: LocalEnvironment,
    history: History,
    root: Path,
    sandbox: Sandbox | None = None,
    *,
    group: "Group | None" = None,
) -> AgentServices:
    """Make the parts of the extensions that are not switched off, and what else the agent has in
    common with its tools. Blocks on small files. Raises ConfigError."""

    def named(one: OfferedSet) -> bool:
        chosen = (*settings.toolsets.offer, *settings.toolsets.use)
        return one.name in chosen or not _named_tools(settings).isdisjoint(one.tools)

    questions = UserQuestions()
    extensions = all_extensions().without(settings.extensions.off).on
    opening = Opening(
        history=history,
        named=named,
        waits=settings.wait_for_triggers,
        group=group,
        local=local,
        root=root,
        sandbox=sandbox,
        questions=questions,
    )
    made = [part for each in extensions for part in _parts_of(each, opening)]
    acts = {act: do for each in extensions for act, do in each.in_conversations.acts.items()}
    for_steps = {
        tool: make for each in extensions for tool, make in each.in_conversations.for_steps.items()
    }
    mentions = next(filter(None, (each.in_conversations.mentions for each in extensions)), "")
    return AgentServices(questions, parts=Parts(made, acts, for_steps, mentions))


def _parts_of(extension: Extension, opening: Opening) -> Iterator[ConversationPart]:
    make, folders, own = (
        extension.in_conversations.parts,
        extension.in_folders,
        opening.local.config_dir,
    )
    if make and (not folders.for_parts or _have_files(folders, own, opening.root)):
        with _faults_named(extension):
            yield from resolved(make)(opening)


@contextmanager
def _faults_named(extension: Extension) -> Iterator[None]:
    """Turn whatever the code of a package raises into a ConfigError that names the extension."""
    try:
        yield
    except CodeagentError:
        raise
    except Exception as error:
        if extension.name in BUILT_IN:
            raise
        why = one_line(f"{type(error).__name__}: {error}", 200)
        raise ConfigError(
            f"the extension {extension.name} cannot be used: {why}; nothing was run. --safe starts "
            "without it, and so does its name in [extensions] off"
        ) from error


def remove_leftovers(state: Path) -> None:
    """Remove what a crash left of extensions in the state folder, of any that is installed."""
    for extension in all_extensions().on:
        for name, remove in extension.in_folders.leftovers.items():
            if may_exist(folder := state / name):
                with _faults_named(extension):
                    resolved(remove)(folder)


def _tools_of(one: OfferedSet, settings: Settings) -> tuple[str, ...]:
    """Return the names of the tools of a set, with these settings."""

    def is_set(section: str, key: str) -> bool:
        return bool(getattr(settings.sections.get(section), key, None))

    return tuple(name for name in one.tools if name not in one.needs or is_set(*one.needs[name]))


def tools_by_reads(dependencies: ToolDependencies, names: Container[str]) -> Iterator[Tool[Any]]:
    """Make those of sets that go by what an agent has read, if one of `names` is among them."""
    for one in dependencies.extensions.sets.values():
        if one.by_reads and any(name in names for name in one.tools):
            yield from _made(one, dependencies)


def _made(one: OfferedSet, dependencies: ToolDependencies) -> Sequence[Tool[Any]]:
    made: Sequence[Tool[Any]] = resolved(one.make)(dependencies.context)
    return made


def _offered(dependencies: ToolDependencies) -> "Iterator[ToolSource]":
    """Yield the built-in sets that the user's settings name, or of which they name a tool. Raises
    ConfigError."""
    settings, extensions = dependencies.settings, dependencies.extensions
    for name in settings.toolsets.offer:
        if name not in extensions.sets and name not in extensions.sets_off:
            near = nearest_or_all(name, extensions.sets)
            raise ConfigError(f"toolsets.offer: unknown built-in set {name}{near}")
    named = {*settings.toolsets.offer, *settings.toolsets.use}
    allowed = _named_tools(settings)
    for name, one in extensions.sets.items():
        listed = set(_tools_of(one, settings))
        if name in named or listed & allowed:
            allowed -= listed  # a tool that two sets have is that of the first
            yield _set_of(one, dependencies)


def _named_tools(settings: Settings) -> set[str]:
    """The names in the user's list of tools; the project's may only take away, and so brings in no
    set."""
    return set[str]().union(*settings.tools[:1])


def with_messages(settings: Settings, group: "Group | None") -> Settings:
    """Return the settings, with the tools over messages turned on if a group is to be run."""
    if group is None:
        return settings
    toolsets = replace(
        settings.toolsets, use=tuple(dict.fromkeys((*settings.toolsets.use, _SENDING)))
    )
    return replace(settings, toolsets=toolsets)


def with_chosen(settings: Settings, history: History) -> Settings:
    """Return the settings, offering also the built-in sets that the user turned on in the
    session."""
    items = (item for item in history.details if item.name == TOOLSET_USE and item.by_user)
    chosen = [
        str(item.details.get("toolset")) for item in items if item.details.get("on") is not False
    ]
    sets = all_extensions().without(settings.extensions.off).sets
    offer = dict.fromkeys((*settings.toolsets.offer, *(name for name in chosen if name in sets)))
    return replace(settings, toolsets=replace(settings.toolsets, offer=tuple(offer)))


def newly_given(settings: Settings, history: History) -> tuple[str, ...]:
    """Return the sets that the command line turns on and that are not already on, as a whole, in
    the session."""
    items = (item.details for item in history.details if item.name == TOOLSET_USE)
    latest = {details.get("toolset"): details for details in items}

    def is_on(details: JsonObject) -> bool:
        return not details.get("tools") and details.get("on") is not False

    return tuple(
        name for name in settings.toolsets_given if name not in latest or not is_on(latest[name])
    )


def _of_extensions(dependencies: ToolDependencies) -> "Iterator[ToolSource]":
    """Yield the sources of extensions."""
    for extension in dependencies.extensions.on:
        if extension.sources and _has_files(extension, dependencies):
            with _faults_named(extension):
                yield from resolved(extension.sources)(dependencies.context)


def _remarks_of_extensions(dependencies: ToolDependencies) -> Iterator[CodedText]:
    """Yield code and text of each notice that extensions have for the beginning, and of each of a
    package that cannot be used."""
    found = dependencies.extensions
    for name, why in found.broken.items():
        yield "extension.broken", visible(f"the extension {name} cannot be used: {why}")
    for extension in found.on:
        if extension.in_conversations.remarks and _has_files(extension, dependencies):
            with _faults_named(extension):
                yield from resolved(extension.in_conversations.remarks)(dependencies.context)


def _has_files(extension: Extension, dependencies: ToolDependencies) -> bool:
    """Whether there may be something of the user's or the project's that the extension reads; true
    for an extension that reads no files."""
    own, root = dependencies.local.own_folder, dependencies.workspace.root
    return _have_files(extension.in_folders, own, root)


def _have_files(folders: InFolders, own: Path | None, root: Path) -> bool:
    places = [root / name for name in folders.project]
    places += [] if own is None else [own / name for name in folders.own]
    return not (folders.own or folders.project) or any(map(may_exist, places))


def open_catalog(
    dependencies: ToolDependencies, history: History | None = None
) -> tuple[ToolCatalog, CatalogChange | None]:
    """Make the catalog of a conversation's tools, and take the first look at files; no source is
    started.

    Blocks on small files. Raises ConfigError.
    """
    settings, off = dependencies.settings, dependencies.extensions.sets_off
    sets = partial(_built_in_sets, dependencies)
    catalog = dependencies.catalog(_toolsets(dependencies, history), sets)
    change = catalog.look()
    known = catalog.toolsets.available.known
    for name in settings.toolsets.use:
        if name in off and name in settings.toolsets_given:
            raise ConfigError(
                f"toolset {name} is not available: the extension {off[name]} is switched off; nothing was run"
            )
        if name not in known and name not in off:
            every = dict.fromkeys((*known, *dependencies.extensions.sets))
            waiting = ", ".join(catalog.now.untrusted)
            hint = f"; not trusted as it is now, and so not loaded: {waiting}" if waiting else ""
            raise ConfigError(
                f"unknown toolset {name}{nearest_or_all(name, every)}{hint}; nothing was run"
            )
    return catalog, change


def _toolsets(dependencies: ToolDependencies, history: History | None) -> Toolsets:
    """Make the sets of a conversation, with those turned on that the settings name, or were on in
    the session."""
    settings = dependencies.settings
    sources = [*_offered(dependencies), *_of_extensions(dependencies)]
    if sources:  # else what files bring would be in the first request beside the tools about sets
        sources += _by_files(dependencies, {source.name for source in sources})
    groups = _groups(settings, dependencies.local, {source.name for source in sources})
    given = settings.toolsets_given
    without = (*given, *dependencies.extensions.sets_off)
    used = (Choice(name) for name in settings.toolsets.use if name not in without)
    toolsets = Toolsets(sources, used, AllowList(settings.tools), groups)
    for item in () if history is None else history.details:
        if item.name == TOOLSET_USE:
            toolsets.restore(item.details)
    for name in given:
        toolsets.restore(Choice(name).details)
    return toolsets


def _by_files(dependencies: ToolDependencies, taken: AbstractSet[str]) -> "Iterator[ToolSource]":
    """Yield the sets that files of their extension bring, unless their name is taken."""
    for each in dependencies.extensions.on:
        for one in each.sets:
            if one.by_files and one.name not in taken and _has_files(each, dependencies):
                yield _set_of(one, dependencies)


def _groups(
    settings: Settings, local: LocalEnvironment, taken: AbstractSet[str]
) -> "list[ToolGroup]":
    """Make the sets that the settings define, and load those that models made, unless their name is
    taken."""
    if not settings.toolsets.groups and not may_exist(local.splits):
        return []
    from codeagent.tools.grouping import ToolGroup, load_splits  # only if there are such sets

    configured = [
        ToolGroup(name, **asdict(group)) for name, group in settings.toolsets.groups.items()
    ]
    taken = {*taken, *settings.toolsets.groups}
    return [*configured, *(group for group in load_splits(local.splits) if group.name not in taken)]


def troubles(dependencies: ToolDependencies, sandbox: StartedSandbox) -> Iterator[CodedText]:
    """Yield a notice for each problem of the instructions, the skills and the sandbox."""
    for problem in (*dependencies.instructions.problems, *dependencies.skills.problems):
        yield (
            "skills.problem" if "SKILL.md" in problem.where else "instructions.hidden",
            visible(str(problem)),
        )
    if (trouble := sandbox.trouble) is not None:
        yield "sandbox.unavailable", f"no sandbox, so bash is disabled: {trouble}; {trouble.remedy}"
    yield from told_at_start(sandbox.info)
    yield from _remarks_of_extensions(dependencies)
    for line in _unused(dependencies):
        yield "settings.unused", visible(line)


def hand_written(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that were written by hand: the tool of a kept answer may be gone."""
    return tuple(rule for rule in rules if rule.origin in ("flag", "user", "project"))


def misnamed(
    catalog: ToolCatalog, rules: Sequence[Rule], dependencies: ToolDependencies
) -> tuple[CodedText, ...]:
    """Return code and text of a notice for each name in rules and lists that may belong to a tool
    not loaded yet. If an extension that is switched off would read tools from files or servers,
    an allowing rule may be about one of those.

    Raises ConfigError if nothing can bring it.
    """
    rules = hand_written(rules)
    unknown = catalog.unknown(rules)
    off = dependencies.extensions.off
    kinds = (kind for each in off for kind in each.in_folders.kinds)
    more = any(each.sources for each in off) or any(kind.brings == "tools" for kind in kinds)
    certain = [rule for rule in rules if not more or rule.permission != "auto"]
    wrong = (
        *(catalog.unknown(certain) if catalog.complete else ()),
        *catalog.unlisted(dependencies.to_read, certain=True),
    )
    if wrong:
        waiting = dependencies.services.parts.lacking(wrong[0])
        raise ConfigError(
            f"{_sentence(wrong[0])} Nothing was run{f'; {waiting}' if waiting else ''}"
        )
    doubtful = map(_sentence, (*unknown, *catalog.unlisted(dependencies.to_read)))
    return tuple(
        ("rule.unknown", f"{text} It is checked again when all tools are known")
        for text in doubtful
    )


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."
