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

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.agent.approvals import UserQuestions
from codeagent.agent.parts import ConversationPart, Opening, Parts
from codeagent.app.sandbox import CodedText, StartedSandbox, told_at_start
from codeagent.app.tools import ToolDependencies
from codeagent.config.extensions import BUILT_IN, all_extensions
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.allow import AllowList
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.extension import Extension, InFolders, OfferedSet, resolved
from codeagent.core.json_types import JsonObject
from codeagent.core.notices import TOOLSET_USE
from codeagent.core.policy import Rule
from codeagent.core.ports import Sandbox
from codeagent.core.sanitize import one_line, visible
from codeagent.core.tool import Tool
from codeagent.disk.opens import may_exist
from codeagent.session.fold import History
from codeagent.tools.catalog import CatalogChange, ToolCatalog
from codeagent.tools.choices import Choice
from codeagent.tools.extension import ExtensionContext
from codeagent.tools.faults import nearest_or_all
from codeagent.tools.toolsets import Toolsets

if TYPE_CHECKING:
    from codeagent.core.groups import Group
    from codeagent.tools.grouping import ToolGroup
    from codeagent.tools.source import BuiltInSet, ToolSource  # many conversations have no source

_SENDING = "messages"
"""The set that a group needs."""


def _built_in_sets(settings: Settings, dependencies: ToolDependencies) -> "tuple[BuiltInSet, ...]":
    """Every set of built-in tools, whether it is offered or not; nothing of it is imported yet."""
    return tuple(
        _set_of(one, settings, dependencies)
        for extension in extensions_on(settings)
        for one in extension.sets
    )


def _set_of(one: OfferedSet, settings: Settings, dependencies: ToolDependencies) -> "BuiltInSet":
    from codeagent.tools.source import BuiltInSet  # few conversations are offered a set

    make = partial(_made, one, extension_context(settings, dependencies))
    return BuiltInSet(one.name, one.about, tools_of(one, settings), make)


def extensions_on(settings: Settings) -> tuple[Extension, ...]:
    """Return the extensions that are not switched off. Blocks on small files. Raises
    ConfigError."""
    return all_extensions().without(settings.extensions.off).on


def _extensions_off(settings: Settings) -> tuple[Extension, ...]:
    """Return the extensions that are switched off. Blocks on small files. Raises ConfigError."""
    return all_extensions().without(settings.extensions.off).off


def _sets_off(settings: Settings) -> dict[str, str]:
    """Return the names of the sets of extensions that are switched off, and the extension of
    each."""
    off = _extensions_off(settings)
    return {one.name: extension.name for extension in off for one in extension.sets}


def _unused_sets(settings: Settings) -> Iterator[str]:
    """Yield a line for each set that a file names, and that is not there as its extension is
    switched off."""
    off = _sets_off(settings)
    for key in ("offer", "use"):
        for name in getattr(settings.toolsets, key):
            if name in off:
                why = f"because the extension {off[name]} is switched off"
                yield f"toolsets.{key}: there is no set {name}, {why}"


def extension_context(settings: Settings, dependencies: ToolDependencies) -> ExtensionContext:
    local = dependencies.local
    return ExtensionContext(
        settings,
        dependencies.workspace,
        dependencies.reads,
        local.environment,
        partial(_secret, local),
        redactor=local.redactor,
        own_folder=local.own_folder,
        trust_project=local.trust_project,
        parts=dependencies.services.parts,
        built_in=dependencies.built_in,
    )


def open_parts(
    settings: Settings,
    history: History,
    local: LocalEnvironment,
    *,
    root: Path,
    questions: UserQuestions,
    sandbox: Sandbox | None = None,
    group: "Group | None" = None,
) -> Parts:
    """Make the parts of the extensions that are not switched off. Blocks on small files. Raises
    ConfigError."""

    def named(one: OfferedSet) -> bool:
        listed = {name for names in settings.tools[:1] for name in names}
        chosen = (*settings.toolsets.offer, *settings.toolsets.use)
        return one.name in chosen or not listed.isdisjoint(one.tools)

    extensions = extensions_on(settings)
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
    return Parts(
        made, {act: do for each in extensions for act, do in each.in_conversations.acts.items()}
    )


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


def tools_of(one: OfferedSet, settings: Settings) -> tuple[str, ...]:
    """Return the names of the tools of a set, with these settings."""

    def is_set(section: str, key: str) -> bool:
        return bool(getattr(settings.sections.get(section), key, None))

    return tuple(name for name in one.tools if name not in one.needs or is_set(*one.needs[name]))


def tools_by_reads(
    settings: Settings, dependencies: ToolDependencies, names: Container[str]
) -> Iterator[Tool[Any]]:
    """Make those of sets that go by what an agent has read, if one of `names` is among them."""
    context = extension_context(settings, dependencies)
    for extension in extensions_on(settings):
        for one in extension.sets:
            if one.by_reads and any(name in names for name in one.tools):
                yield from _made(one, context)


def _made(one: OfferedSet, context: ExtensionContext) -> Sequence[Tool[Any]]:
    made: Sequence[Tool[Any]] = resolved(one.make)(context)
    return made


def _offered(settings: Settings, dependencies: ToolDependencies) -> "Iterator[ToolSource]":
    """Yield the built-in sets that the user's settings name, or of which they name a tool. Raises
    ConfigError."""
    sets = {one.name: one for extension in extensions_on(settings) for one in extension.sets}
    off = _sets_off(settings)
    for name in settings.toolsets.offer:
        if name not in sets and name not in off:
            raise ConfigError(
                f"toolsets.offer: there is no built-in set {name}{nearest_or_all(name, sets)}"
            )
    named = {*settings.toolsets.offer, *settings.toolsets.use}
    allowed = _named_tools(settings)
    for name, one in sets.items():
        listed = set(tools_of(one, settings))
        if name in named or listed & allowed:
            allowed -= listed  # a tool that two sets have is that of the first
            yield _set_of(one, settings, dependencies)


def _named_tools(settings: Settings) -> set[str]:
    """The names in the user's list of tools; the project's may only take away, and so brings in no
    set."""
    return {name for names in settings.tools[:1] for name in names}


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
    sets = {one.name for extension in extensions_on(settings) for one in extension.sets}
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


def _secret(local: LocalEnvironment, name: str) -> str | None:
    """Return the value of a variable, or the key kept for it; blocks. Raises ConfigError."""
    return local.environment.get(name) or local.find_key(name)


def _of_extensions(settings: Settings, dependencies: ToolDependencies) -> "Iterator[ToolSource]":
    """Yield the sources of extensions."""
    context = extension_context(settings, dependencies)
    for extension in extensions_on(settings):
        if extension.sources and has_files(extension, context):
            with _faults_named(extension):
                yield from resolved(extension.sources)(context)


def remarks_of_extensions(
    settings: Settings, dependencies: ToolDependencies
) -> Iterator[tuple[str, str]]:
    """Yield code and text of each notice that extensions have for the beginning, and of each of a
    package that cannot be used."""
    found = all_extensions().without(settings.extensions.off)
    for name, why in found.broken.items():
        yield "extension.broken", visible(f"the extension {name} cannot be used: {why}")
    context = extension_context(settings, dependencies)
    for extension in found.on:
        if extension.in_conversations.remarks and has_files(extension, context):
            with _faults_named(extension):
                yield from resolved(extension.in_conversations.remarks)(context)


def has_files(extension: Extension, context: ExtensionContext) -> bool:
    """Whether there may be something of the user's or the project's that the extension reads; true
    for an extension that reads no files."""
    return _have_files(extension.in_folders, context.own_folder, context.workspace.root)


def _have_files(folders: InFolders, own: Path | None, root: Path) -> bool:
    places = [root / name for name in folders.project]
    places += [] if own is None else [own / name for name in folders.own]
    return not (folders.own or folders.project) or any(map(may_exist, places))


_KINDS: tuple[Callable[[Settings, ToolDependencies], "Iterable[ToolSource]"], ...] = (
    _offered,
    _of_extensions,
)
"""In the order in which a set is looked for, and listed."""


def open_catalog(
    settings: Settings, dependencies: ToolDependencies, history: History | None = None
) -> tuple[ToolCatalog, CatalogChange | None]:
    """Make the catalog of a conversation's tools, and take the first look at files; no source is
    started.

    Blocks on small files. Raises ConfigError.
    """
    sets = partial(_built_in_sets, settings, dependencies)
    off_tools = _tools_of_sets(_extensions_off(settings))
    names = (*_tools_of_sets(extensions_on(settings)), *off_tools)
    toolsets = _toolsets(settings, dependencies, history)
    catalog = dependencies.catalog(toolsets, names, off_tools, sets)
    change = catalog.look()
    known = catalog.toolsets.available.known
    off = _sets_off(settings)
    for name in settings.toolsets.use:
        if name in off and name in settings.toolsets_given:
            raise ConfigError(
                f"there is no toolset {name}: the extension {off[name]} is switched off; nothing was run"
            )
        if name not in known and name not in off:
            waiting = ", ".join(catalog.now.untrusted)
            hint = f"; not trusted as it is now, and so not loaded: {waiting}" if waiting else ""
            raise ConfigError(
                f"there is no toolset {name}{nearest_or_all(name, known)}{hint}; nothing was run"
            )
    return catalog, change


def _tools_of_sets(extensions: Iterable[Extension]) -> tuple[str, ...]:
    """Return the names of the tools of all sets, those that only some agents have included."""
    sets = (one for each in extensions for one in each.sets)
    return tuple(name for one in sets for name in (*one.tools, *one.beside))


def _toolsets(
    settings: Settings, dependencies: ToolDependencies, history: History | None
) -> Toolsets:
    """Make the sets of a conversation, with those turned on that the settings name, or were on in
    the session."""
    sources = [source for kind in _KINDS for source in kind(settings, dependencies)]
    if sources:  # else what files bring would be in the first request beside the tools about sets
        sources += _by_files(settings, dependencies, {source.name for source in sources})
    allow = AllowList(settings.tools)
    groups = _groups(settings, dependencies.local, {source.name for source in sources})
    given = settings.toolsets_given
    without = (*given, *_sets_off(settings))
    used = (Choice(name) for name in settings.toolsets.use if name not in without)
    toolsets = Toolsets(sources, used, allow, groups)
    for item in () if history is None else history.details:
        if item.name == TOOLSET_USE:
            toolsets.restore(item.details)
    for name in given:
        toolsets.restore(Choice(name).details)
    return toolsets


def _by_files(
    settings: Settings, dependencies: ToolDependencies, taken: AbstractSet[str]
) -> "Iterator[ToolSource]":
    """Yield the sets that files of their extension bring, unless their name is taken."""
    context = extension_context(settings, dependencies)
    for each in extensions_on(settings):
        for one in each.sets:
            if one.by_files and one.name not in taken and has_files(each, context):
                yield _set_of(one, settings, dependencies)


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


def troubles(
    settings: Settings, dependencies: ToolDependencies, sandbox: StartedSandbox
) -> Iterator[CodedText]:
    """Yield a notice for each problem of the instructions, the skills and the sandbox."""
    for problem in (*dependencies.instructions.problems, *dependencies.skills.problems):
        yield (
            "skills.problem" if "SKILL.md" in problem.where else "instructions.hidden",
            visible(str(problem)),
        )
    if (trouble := sandbox.trouble) is not None:
        yield "sandbox.unavailable", f"no sandbox, so bash is disabled: {trouble}. {trouble.remedy}"
    yield from told_at_start(sandbox.info)
    yield from remarks_of_extensions(settings, dependencies)
    unused = (*settings.unused, *_unused_sets(settings))
    yield from (("settings.unused", visible(line)) for line in unused)


def hand_written(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that were written by hand: the tool of a kept answer may be gone."""
    return tuple(rule for rule in rules if rule.origin in ("flag", "user", "project"))


def misnamed(
    catalog: ToolCatalog, rules: Sequence[Rule], dependencies: ToolDependencies, settings: Settings
) -> tuple[CodedText, ...]:
    """Return code and text of a notice for each name in rules and lists that may belong to a tool
    not loaded yet. If an extension that is switched off would read tools from files or servers,
    an allowing rule may be about one of those.

    Raises ConfigError if nothing can bring it.
    """
    rules = hand_written(rules)
    unknown = catalog.unknown(rules)
    off = _extensions_off(settings)
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
