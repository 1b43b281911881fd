"""Builds the settings of a run: flags before environment before the user's file; a project may only
tighten."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, get_args, get_origin

from codeagent.config.checking import WrongValue, checked
from codeagent.config.extensions import Extensions, all_extensions
from codeagent.config.local_environment import PROJECT_FILE
from codeagent.config.settings import (
    ExtensionSettings,
    FileSettings,
    LimitSettings,
    RuleLayers,
    RuleSetting,
    RuleSettings,
    SandboxSettings,
    Settings,
)
from codeagent.core.dataclass import dataclass, field_types
from codeagent.core.errors import ConfigError
from codeagent.core.extension import Reference, resolved
from codeagent.core.model import same_provider
from codeagent.core.policy import Permission, Rule, RuleOrigin, tighter
from codeagent.core.sanitize import one_line
from codeagent.disk.opens import open_folder, read_regular
from codeagent.disk.private import LARGEST, UnsafeFile, read_owned

ENVIRONMENT = {
    "CODEAGENT_MODEL": ("model",),
    "CODEAGENT_API_BASE": ("api_base",),
    "CODEAGENT_MODE": ("mode",),
    "CODEAGENT_STRATEGY": ("strategy",),
    "CODEAGENT_SANDBOX_IMAGE": ("sandbox", "image"),
}
"""Variables and the setting each one sets."""
_SECTIONS = frozenset(
    name for name, kind in field_types(FileSettings).items() if is_dataclass(kind)
) - {"network"}
"""The settings that are tables of settings: layers add up in them key by key. `network` is one
setting, which only the user's file has."""
_PERMISSIONS: dict[str, Permission] = {"allow": "auto", "ask": "prompt", "deny": "deny"}
_TIGHTENS = frozenset(
    {
        ("rules",),
        ("rules", "deny"),
        ("rules", "ask"),
        ("tools",),
        ("read_only_commands",),
        ("sandbox",),
        ("sandbox", "network"),
        ("sandbox", "ignored_files"),
    }
)
_LOOSENS = {
    ("read_only_commands",): "allow",
    ("sandbox", "network"): "open",
    ("sandbox", "ignored_files"): "take",
}
"""Values that never tighten."""
_COMMAND_LINE = "the command line"

Layer = dict[str, Any]
Decides = Callable[[Rule, str], bool]
"""Tells whether the rule decides the call in the example, parsed as calls are."""


@dataclass(frozen=True)
class _Source:
    """Where a layer was read, for messages about it."""

    name: str
    text: str = ""
    """Empty if there are no lines to point at."""

    def at(self, path: tuple[str, ...], *values: str) -> str:
        if not self.text:
            return f"{self.name}: "
        from codeagent.config.toml_lines import line_of_text  # only for a message

        return f"{self.name}:{line_of_text(self.text, path, *values)}: "


@dataclass(frozen=True)
class _Check:
    """What the layers are checked against."""

    decides: Decides
    extensions: Extensions

    def __call__(self, data: Layer, source: _Source) -> None:
        """Raise ConfigError for the first setting or rule of a layer that is unknown, wrong or
        fails its example."""
        sections = self.extensions.sections
        kernels = {key: value for key, value in data.items() if key not in sections}
        try:
            rules = checked(FileSettings, kernels).rules
            for name, kind in sections.items():
                if name in data:
                    checked(resolved(kind), data[name], (name,))
        except WrongValue as error:
            path = tuple(part for part in error.path if isinstance(part, str))
            said = str(error)
            what = (
                "no such setting" + _nearest(path, sections)
                if error.unknown
                else said[:1].lower() + said[1:]
            )
            raise ConfigError(f"{source.at(path)}{'.'.join(path)}: {what}") from error
        for name, permission, setting in _each(rules):
            _try_rule(name, permission, setting, source, self.decides)


def load_settings(
    flags: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    user_file: Path,
    workspace: Path,
    decides: Decides,
) -> Settings:
    """Build one frozen value from all layers.

    `flags` has the shape of FileSettings and holds only what was given. Rules of all layers add up;
    the project's limits apply if they are lower, and its list of tools besides the user's.
    Raises ConfigError naming file, line and key, and for a rule whose examples it does not bear
    out.
    """
    user, source = _read_user(user_file)
    given = dict(flags)
    check = _Check(decides, _extensions_on(all_extensions(), given, user, source))
    unused = _drop_unused(user, source, check.extensions)
    check(user, source)
    project = _read_project(workspace, check)
    check(given, _Source(_COMMAND_LINE))
    variables = _from_environment(environment, check)
    layers: list[tuple[str, Layer]] = [
        (str(user_file), user),
        *variables.items(),
        (_COMMAND_LINE, given),
    ]
    merged = _merged(layer for _, layer in layers)
    layers.append((str(PROJECT_FILE), _tighten(merged, given, project)))
    if "toolsets" in given:
        use = [*user.get("toolsets", {}).get("use", ()), *given["toolsets"]["use"]]
        merged["toolsets"]["use"] = list(dict.fromkeys(use))
        merged["toolsets_given"] = list(dict.fromkeys(given["toolsets"]["use"]))
    merged["rules"] = {
        "flag": given.get("rules", {}),
        "user": user.get("rules", {}),
        "project": project.get("rules", {}),
    }
    sections = {
        name: resolved(kind) for name, kind in check.extensions.sections.items() if name in merged
    }
    tables = {*_SECTIONS, *(name for name, kind in sections.items() if not get_origin(kind))}
    merged["origins"] = {
        key: name
        for name, layer in layers
        for key in _set_in(layer, tables)
        if _is_set(merged, key)
    }
    merged["sections"] = {name: checked(kind, merged.pop(name)) for name, kind in sections.items()}
    return checked(Settings, merged | {"unused": unused})


def check_user(data: Layer, decides: Decides) -> None:
    """Raise ConfigError if the next start would refuse this content of the user's file."""
    kept, source = dict(data), _Source("config.toml")
    check = _Check(decides, _extensions_on(all_extensions(), {}, kept, source))
    _drop_unused(kept, source, check.extensions)
    check(kept, source)


def _tighten(merged: Layer, given: Layer, project: Layer) -> Layer:
    """Put into `merged` what the project tightens; return that."""
    lowered = _lower(project.get("limits", {}), merged.get("limits", {}), given.get("limits", {}))
    merged["limits"] = {**merged.get("limits", {}), **lowered}
    held = project.get("sandbox", {})
    merged["network_given"] = "network" in given.get("sandbox", {})
    sandbox = merged.get("sandbox", {})
    network = checked(SandboxSettings, sandbox).network
    if "network" in held and not merged["network_given"]:
        network = tighter(network, held["network"])
    if held:
        merged["sandbox"] = {**sandbox, **held, "network": network}
    if "read_only_commands" in project:
        merged["read_only_commands"] = project["read_only_commands"]
    own, narrower = merged.get("tools"), project.get("tools")
    merged["tools"] = [] if own is None and narrower is None else [["*"] if own is None else own]
    merged["tools"] += [] if narrower is None else [narrower]
    tightened: Layer = {
        key: project[key] for key in ("read_only_commands", "tools") if key in project
    }
    tightened["sandbox"] = {
        key: value for key, value in held.items() if merged["sandbox"][key] == value
    }
    return tightened | {"limits": lowered}


def _extensions_on(
    extensions: Extensions, given: Layer, user: Layer, source: _Source
) -> Extensions:
    """Return the extensions, without those that the command line or the user's file switches off.

    Raises ConfigError for a name that no extension has.
    """
    for layer, where in ((given, _Source(_COMMAND_LINE)), (user, source)):
        section = layer.get("extensions")
        if not isinstance(section, Mapping) or "off" not in section:
            continue
        try:
            off = checked(ExtensionSettings, section).off
            return extensions.without(off)
        except WrongValue:
            return extensions  # the check of the whole layer says what is wrong
        except ConfigError as error:
            place = where.at(("extensions", "off"))
            raise ConfigError(f"{place}extensions.off: {error}; nothing was run") from error
    return extensions


def extensions_of(user_file: Path) -> Extensions:
    """Return the extensions, as the user's file has them on or off. Raises ConfigError."""
    user, source = _read_user(user_file)
    found = all_extensions()
    given = {key: value for key, value in user.items() if key == "extensions"}
    _Check(lambda rule, example: False, found)(given, source)
    return _extensions_on(found, {}, user, source)


def _drop_unused(data: Layer, source: _Source, extensions: Extensions) -> tuple[str, ...]:
    """Take out the sections of extensions that are switched off; return a line about each."""
    off = {name: extension for name, extension in extensions.sections_off.items() if name in data}
    for name in off:
        del data[name]
    return tuple(
        f"{source.at((name,))}{name}: no such setting, because the extension {extension} is switched off"
        for name, extension in off.items()
    )


def _set_in(layer: Layer, tables: Collection[str]) -> Iterator[str]:
    """Yield the settings of a layer, those of a section as `section.key`; without rules."""
    for key, value in layer.items():
        if key == "rules":
            continue
        yield from (f"{key}.{inner}" for inner in value) if key in tables else (key,)


def _is_set(merged: Layer, key: str) -> bool:
    """Whether the setting still holds: another layer may have removed it."""
    section, _, inner = key.partition(".")
    return inner in merged.get(section, {}) if inner else section in merged


def parse_rules(rules: RuleLayers) -> tuple[Rule, ...]:
    """Return the rules for `core.policy`, each with its origin. Raises ConfigError."""
    origins: dict[RuleOrigin, RuleSettings] = {
        "flag": rules.flag,
        "user": rules.user,
        "project": rules.project,
    }
    return tuple(
        Rule.parse(setting.rule, permission, origin)
        for origin, layer in origins.items()
        for _, permission, setting in _each(layer)
    )


def _each(rules: RuleSettings) -> Iterator[tuple[str, Permission, RuleSetting]]:
    for name, permission in _PERMISSIONS.items():
        for setting in getattr(rules, name):
            yield name, permission, setting


def _read_user(path: Path) -> tuple[Layer, _Source]:
    try:
        text = read_owned(path)
    except UnsafeFile as error:
        raise ConfigError(f"{error}; nothing was run") from error
    if text is None:
        return {}, _Source(str(path))
    data, source = _parse(text, str(path))
    if "kind" in data.get("sandbox", {}) and isinstance(data["sandbox"], dict):
        place = source.at(("sandbox", "kind"))
        raise ConfigError(f"{place}sandbox.kind is not for files: --sandbox off is given per run")
    return data, source


def _read_project(workspace: Path, check: _Check) -> Layer:
    text = _open_confined(workspace)
    if text is None:
        return {}
    data, source = _parse(text, str(PROJECT_FILE))
    for path in _keys(data):
        value: Any = reduce(getitem, path, data)
        if path[0] == "limits" or (path in _TIGHTENS and value != _LOOSENS.get(path)):
            continue
        raise ConfigError(
            f"{source.at(path)}{'.'.join(path)} cannot be set by a project, which may only tighten: rules.deny, "
            'rules.ask, tools, sandbox.network, sandbox.ignored_files = "ask", lower limits and '
            'read_only_commands = "ask"; nothing was run: remove it or set it in your own file'
        )
    check(data, source)
    return data


def _open_confined(workspace: Path) -> bytes | None:
    """Return the bytes of the project file, or None; no link is followed. Raises ConfigError."""
    try:
        folder = open_folder(workspace / PROJECT_FILE.parent, listed=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{PROJECT_FILE.parent} is not a plain folder ({error.strerror}); nothing was run"
        ) from error
    try:
        return read_regular(PROJECT_FILE.name, within=folder, largest=LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{PROJECT_FILE} cannot be read ({error.strerror}); nothing was run"
        ) from error
    finally:
        os.close(folder)


def _parse(raw: bytes, name: str) -> tuple[Layer, _Source]:
    import tomllib  # only if there is a file

    try:
        text = raw.decode()
        return tomllib.loads(text), _Source(name, text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{name}:{line}: not UTF-8; nothing was run: repair the file") from error
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at line ")
        line_text = where.partition(",")[0] if where else str(text.count("\n") + 1)
        raise ConfigError(
            f"{name}:{line_text}: {what}; nothing was run: repair the file"
        ) from error
    except RecursionError as error:
        raise ConfigError(
            f"{name}:1: nested too deeply; nothing was run: repair the file"
        ) from error


def _try_rule(
    name: str, permission: Permission, setting: RuleSetting, source: _Source, decides: Decides
) -> None:
    path = ("rules", name)
    try:
        rule = Rule.parse(setting.rule, permission)
    except ConfigError as error:
        raise ConfigError(f"{source.at(path, setting.rule)}{error}") from error
    word = "ask about" if permission == "prompt" else name
    for wanted, examples in ((True, setting.matches), (False, setting.never)):
        for example in examples:
            if decides(rule, example) == wanted:
                continue
            does, must = (
                ("does not", "which it must") if wanted else ("would", "which it never may")
            )
            place = source.at(path, setting.rule, example)
            raise ConfigError(
                f"{place}rules.{name}: {rule} {does} {word} {_shown(example)}, {must}; "
                "nothing was run: change the rule or the example"
            )


def _shown(example: str) -> str:
    """Quote an example on one line."""
    return repr(one_line(example, 80))


def _nearest(path: tuple[str, ...], extensions: Mapping[str, Reference]) -> str:
    own = len(path) > 1 and path[0] in extensions
    section = (
        _at(resolved(extensions[path[0]]), path[1:-1]) if own else _at(FileSettings, path[:-1])
    )
    from difflib import get_close_matches  # only for a mistyped key

    names = [each.name for each in fields(section)]
    names += extensions if section is FileSettings else ()
    near = get_close_matches(path[-1], names, n=1)
    prefix = ".".join((*path[:-1], ""))
    return f"; did you mean {prefix}{near[0]}?" if near else f"; there are {', '.join(names)}"


def _at(kind: Any, path: Iterable[str]) -> Any:
    """Return the dataclass that a path below this one leads to, through lists and tables."""
    for part in path:
        kind = field_types(kind)[part] if is_dataclass(kind) else get_args(kind)[-1]
        while not is_dataclass(kind) and get_origin(kind) is not dict:
            kind = get_args(kind)[0]
    return kind


def _from_environment(environment: Mapping[str, str], check: _Check) -> dict[str, Layer]:
    """Return a layer for each variable that is set, by its name."""
    layers: dict[str, Layer] = {}
    for variable, path in ENVIRONMENT.items():
        if not (value := environment.get(variable)):
            continue
        layers[variable] = {path[0]: value} if len(path) == 1 else {path[0]: {path[1]: value}}
        check(layers[variable], _Source(variable))
    return layers


def _merged(layers: Iterable[Layer]) -> Layer:
    """Merge the layers, the lowest first.

    An address that a layer gives with its model is not used for a model of another provider, named
    in a higher layer.
    """
    merged, owner = Layer(), None
    for layer in layers:
        model = layer.get("model")
        if "api_base" in layer:
            owner = model
        elif owner and model and not same_provider(model, owner):
            del merged["api_base"]
            owner = None
        merged = _merge(merged, layer)
    return merged


def _merge(lower: Layer, upper: Mapping[str, Any]) -> Layer:
    merged = dict(lower)
    for key, value in upper.items():
        merged[key] = {**merged.get(key, {}), **value} if key in _SECTIONS else value
    return merged


def _lower(project: Layer, others: Layer, given: Mapping[str, Any]) -> Layer:
    """Return the project's limits that are lower than the others; a flag overrides them."""
    without = checked(LimitSettings, others)
    own = checked(LimitSettings, project)
    pairs = {key: (getattr(own, key), getattr(without, key)) for key in project if key not in given}
    return {key: value for key, (value, held) in pairs.items() if held is None or value < held}


def _keys(data: Layer) -> list[tuple[str, ...]]:
    """Return the path of every key, tables before what is in them."""
    found: list[tuple[str, ...]] = []
    for key, value in data.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *below) for below in _keys(value)]
    return found
