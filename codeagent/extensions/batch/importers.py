"""Makes tasks from SWE-bench's instances, Exercism tracks and recipes, and SWE-bench's predictions from
results."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from codeagent.core.errors import ConfigError
from codeagent.disk.opens import read_regular
from codeagent.extensions.batch.results import Results

_LARGEST = 1 << 30
_SWE = "Resolve this issue of the repository you are in. Do not change its tests.\n\n{problem_statement}"
_EXERCISE = (
    "Solve the exercise in {folder}: change {solution} there and nothing else, so that its tests "
    "pass.\n\n{instructions}"
)


def imported(
    kind: str, source: Path, repositories: Sequence[str], check: str
) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a source. Raises ConfigError.

    `repositories`: for SWE-bench, at most one folder with clones named OWNER__NAME; for recipes, the
    repositories that each recipe is run in. `check`: a command, in which {name} and {folder} are
    replaced.
    """
    found = False
    try:
        for task in KINDS[kind](source, repositories, check):
            found = True
            yield task
    except OSError as error:
        raise ConfigError(f"{source} cannot be read ({error.strerror})") from error
    if not found:
        raise ConfigError(f"{source}: no tasks of the kind {kind} were found in it")


def predictions(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the predictions that SWE-bench's evaluation reads: the patch of each instance. Raises
    OSError."""
    for record in results.records.values():
        folder = results.folder(record.key)
        try:
            patch = read_regular(folder.patch).decode("utf-8", "replace")
        except FileNotFoundError:
            patch = ""
        yield {
            "instance_id": folder.name(),
            "model_name_or_path": record.model,
            "model_patch": patch,
        }


def _swebench(source: Path, folders: Sequence[str], check: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_text(source).split("\n"), 1):
        if not line.strip():
            continue
        try:
            instance = json.loads(line)
            name, repository = instance["instance_id"], instance["repo"]
            task = {"commit": instance["base_commit"], "prompt": _SWE.format(**instance)}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{source}:{number}: it is not an instance of SWE-bench ({error})"
            ) from None
        there = f"https://github.com/{repository}.git"
        if folders:
            there = str(Path(folders[0], repository.replace("/", "__")).absolute())
        yield {"name": name, "repository": there, **task, **_checked(check, name, ".")}


def _exercism(source: Path, _: Sequence[str], check: str) -> Iterator[dict[str, Any]]:
    for described in sorted(source.glob("exercises/practice/*/.meta/config.json")):
        folder = described.parent.parent
        inside = str(folder.relative_to(source))
        try:
            solution = json.loads(_text(described))["files"]["solution"]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{described}: it does not name the solution files ({error})"
            ) from None
        parts = [folder / ".docs" / f"instructions{more}.md" for more in ("", ".append")]
        prompt = _EXERCISE.format(
            folder=inside,
            solution=", ".join(solution),
            instructions="\n\n".join(_text(part) for part in parts if part.exists()),
        )
        yield {
            "name": folder.name,
            "repository": str(source.absolute()),
            "prompt": prompt,
            **_checked(check, folder.name, inside),
        }


def _recipes(source: Path, repositories: Sequence[str], check: str) -> Iterator[dict[str, Any]]:
    if not repositories:
        raise ConfigError("give --repository, once for each repository to run the recipes in")
    names = sorted(
        {each.stem for each in source.iterdir() if each.suffix in (".md", ".yaml", ".yml")}
    )
    for name in names:
        for repository in repositories:
            yield {
                "name": f"{name} {Path(repository).name}",
                "repository": _absolute(repository),
                "recipe": name,
                **_checked(check, name, "."),
            }


KINDS = {"swebench": _swebench, "exercism": _exercism, "recipes": _recipes}


def _checked(check: str, name: str, folder: str) -> dict[str, str]:
    text = check.replace("{name}", name).replace("{folder}", folder)
    return {"check": text} if text else {}


def _absolute(repository: str) -> str:
    """Return the absolute path of a repository on this machine, and any other repository as it is."""
    return str(Path(repository).absolute()) if Path(repository).exists() else repository


def _text(path: Path) -> str:
    """Raises OSError."""
    return read_regular(path, follow=True, largest=_LARGEST).decode("utf-8", "replace")
