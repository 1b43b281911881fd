"""Says when something outside the sandbox runs a file, by its name alone: tables of names, and
classes of names.

`names/host_files.txt` is kept by hand. `names/known_tools.txt` comes from collections that others
maintain, through `make names`. A class is what such names have in common, for the tools that no
list has yet. In doubt, a file counts.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from codeagent.core.lazy_regex import lazy_regex

NEVER = "never"
"""The heading of the names that are no such files, whatever else has them."""
_STARTS = "may run on your machine, outside the sandbox: when a program that reads it starts"
_BUILDS = (
    "may run on your machine, outside the sandbox: when the project is built, installed or tested"
)
_WORKS = "may run on your machine, outside the sandbox: when a coding agent works here: it says what that may run"

_PROGRAM = r"(?:[cm]?[jt]sx?|py|rb|php|lua|p[lm]|exs|jl|el|groovy|kts|sh|bash|zsh|fish|ps1|coffee|nix|star|pkl)"
_DATA = r"(?:json[c5]?|ya?ml|toml|ini|cfg|conf|kdl|hcl|hjson|properties)"
_SOURCE = r"(?:py|rs|go|js|ts|rb|java|md|txt)"


class _Class(NamedTuple):
    when: str
    names: str
    """A regular expression for the whole name, folded."""
    anywhere: bool = False
    """Whether it also counts below a folder of sources, of results or of test data: see
    `_INNER`."""


_CLASSES = (
    _Class(
        _BUILDS,
        rf"(?:(?:gnu|bsd)?make|docker|container|proc)file\.(?!(?:.*\.)?{_SOURCE}$).+",
        anywhere=True,
    ),
    _Class(_BUILDS, r".+\.[a-z]*proj(?:\.user)?", anywhere=True),
    _Class(_BUILDS, r"[a-z]{3,}(?<!pro)file"),
    _Class(_STARTS, rf"\..+rc(?:\.{_PROGRAM}|\.{_DATA})?", anywhere=True),
    _Class(_STARTS, rf"\..+\.(?:{_PROGRAM}|{_DATA})"),
    _Class(_STARTS, rf".+\.config(?:\.[\w-]+)?\.(?:{_PROGRAM}|{_DATA})"),
    _Class(_STARTS, rf".+\.conf\.(?:{_PROGRAM}|{_DATA})"),
    _Class(_STARTS, rf"[a-z-]{{3,}}rc\.(?:[cm]?[jt]s|{_DATA})"),
    _Class(_WORKS, r"\.[a-z-]+rules(?:\.md)?", anywhere=True),
)
_FOLDERS = """
src lib app source sources components fixture fixtures __fixtures__ testdata test-data test_data test-results coverage
dist build out target output outputs tmp
"""
_INNER = frozenset(_FOLDERS.split())
"""Folders in which a file that is named like a configuration usually is none, as in
`src/app.config.ts`."""
_PARTS = """
config settings mcp hooks rules commands agents skills plugins extensions tasks workflows prompts steering instructions
"""
_STEERS = frozenset(_PARTS.split())
"""What a hidden folder holds, without suffix, if it is a tool's: `.tool/settings.json`,
`.tool/hooks/x`."""
_MADE = """
.next .nuxt .output .svelte-kit .angular .expo .astro .turbo .docusaurus .vercel .netlify .wrangler .serverless .aws-sam
.build .dart_tool .gradle .nx .hypothesis .ipynb_checkpoints .local .git
"""
_GENERATED = frozenset(_MADE.split())
"""Hidden folders that a tool fills by itself; so are those with `cache` in their name."""
_VARIANT = lazy_regex(r"[\w-]+\.(?:[cm]?[jt]sx?|coffee)")
"""What follows the name of a tool with a `TOOL.config.js`: `webpack.dev.js`, `jest.setup.ts`."""
_NO_TOOL = frozenset(
    {"build", "release", "app", "source", "forge", "i18n", "sentry", "next", "vue"}
)
"""Words with such a file in the tables that ordinary sources begin with, too."""
_CONFIGURES = lazy_regex(r"\.conf(ig)?\.\w+$")
_SETTINGS = (
    ".npmrc .yarnrc .yarnrc.yml .yarnrc.yaml pnpm-workspace.yaml bunfig.toml pip.conf uv.toml"
)
_HOLD_BACK = frozenset(_SETTINGS.split())
"""Settings by which a package manager runs less than it would without them, as `ignore-scripts`
does."""
_BOUNDARY = lazy_regex(r"[._-]")


class _Tables(NamedTuple):
    names: dict[str, str]
    """When a file runs, by its name; empty for one that never does."""
    folders: dict[str, str]
    tails: dict[str, str]
    """By the text that a name ends with; it begins with a dot, `-` or `_`."""
    heads: dict[str, list[tuple[str, str, str]]]
    """What a name begins and ends with, and when: by the beginning up to its last dot, `-` or
    `_`."""
    tools: set[str]
    """The tools with a `TOOL.config.js`."""


def parse(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name of a table with its heading."""
    heading = ""
    for line in text.splitlines():
        if line.startswith("["):
            heading = line[1:-1]
        elif line and not line.startswith("#"):
            yield line, heading


def table(name: str) -> str:
    """Return the text of a table of names."""
    return (Path(__file__).with_name("names") / f"{name}.txt").read_text(encoding="utf-8")


@cache
def _tables() -> _Tables:
    tables = _Tables({}, {}, {}, {}, set())
    rows = [
        *((name, _STARTS) for name, _ in parse(table("known_tools"))),
        *parse(table("host_files")),
    ]
    for pattern, heading in rows:
        when = "" if heading == NEVER else heading
        head, star, tail = pattern.partition("*")
        if (tool := pattern.partition(".config.")[0]) != pattern and tool not in _NO_TOOL:
            tables.tools.add(tool)
        if pattern.endswith("/"):
            tables.folders[pattern[:-1]] = when
        elif not star:
            tables.names[pattern] = when
        elif not head:
            tables.tails[tail] = when
        else:
            bounds = [bound.end() for bound in _BOUNDARY.finditer(head)]
            tables.heads.setdefault(head[: bounds[-1]], []).append((head, tail, when))
    return tables


@cache
def _classes() -> tuple[tuple[re.Pattern[str], _Class], ...]:
    return tuple((re.compile(one.names), one) for one in _CLASSES)


def kinds() -> tuple[str, ...]:
    """Return what is said of each kind of file."""
    return tuple(
        dict.fromkeys(heading for _, heading in parse(table("host_files")) if heading != NEVER)
    )


def runs_below(folders: Sequence[str]) -> str:
    """Return when everything below these folders runs, as a phrase; empty if it does not. Names are
    folded."""
    known = _tables().folders
    for at, folder in enumerate(folders):
        if folder in known:
            return known[folder]
        if at and folders[at - 1][:1] == "." and _steers(folders[at - 1], folder):
            return _STARTS
    return ""


def runs(folders: Sequence[str], name: str) -> str:
    """Return when the file runs, as a phrase; empty if it does not. Names are folded.

    A link may have a folder's name and lead to one.
    """
    if found := runs_below((*folders, name)):
        return found
    when, inner = _of_name(name)
    return "" if inner and not _INNER.isdisjoint(folders) else when


def holds_back(folders: Sequence[str], name: str) -> bool:
    """Whether a program may do more once the file is gone. Names are folded."""
    return name in _HOLD_BACK or runs(folders, name) == _WORKS


def kind_of(name: str) -> str:
    """Return a glob for the name and others of its kind; empty if each such file is to be asked
    about by itself."""
    when, _ = _of_name(name.lower())
    if when not in (_STARTS, _BUILDS):
        return ""
    known = _CONFIGURES.search(name)
    return f"*{known[0]}" if known else name


def _steers(folder: str, name: str) -> bool:
    """Whether what has this name in the hidden folder is how its tool is told what to do."""
    return (
        name.partition(".")[0] in _STEERS
        and len(folder) > 1
        and folder not in _GENERATED
        and "cache" not in folder
    )


@lru_cache(maxsize=16384)
def _of_name(name: str) -> tuple[str, bool]:
    """Return when a file of this name runs, and whether a folder of `_INNER` makes it an ordinary
    one."""
    when = _listed(name)
    if when is not None:
        return when, False
    tool, _, rest = name.partition(".")
    if tool in _tables().tools and _VARIANT.fullmatch(rest):
        return _BUILDS, True
    found = next((one for pattern, one in _classes() if pattern.fullmatch(name)), None)
    return ("", False) if found is None else (found.when, not found.anywhere)


def _listed(name: str) -> str | None:
    """Return what the tables say; None if they do not list the name."""
    tables = _tables()
    if name in tables.names:
        return tables.names[name]
    bounds = [bound.start() for bound in _BOUNDARY.finditer(name)]
    for at in bounds:
        if at and (when := tables.tails.get(name[at:])) is not None:
            return when
    for at in reversed(bounds):
        for head, tail, when in tables.heads.get(name[: at + 1], ()):
            if len(name) > len(head) + len(tail) and name.startswith(head) and name.endswith(tail):
                return when
    return None
