"""Splits: how a model divided the tools of a large source into sets, kept until the source has other tools."""

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from codeagent.bootstrap.models import model_options, open_model
from codeagent.bootstrap.place import Place
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.messages import Usage
from codeagent.core.model import ModelAnswer
from codeagent.disk.private import UnsafeFile, read_private, replace_private
from codeagent.tools.grouping import NoPartition, ToolGroup, ask_for_split, read_split
from codeagent.tools.source import Toolset


@dataclass(frozen=True)
class Split:
    """The sets that a model made of a source, and what that cost."""

    groups: tuple[ToolGroup, ...]
    usage: Usage


class SplitFailed(CodeagentError):
    """The source stays one set; `usage` is what asking cost."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


def load_splits(folder: Path) -> tuple[ToolGroup, ...]:
    """Load the sets of all splits that are kept; one that cannot be read is passed over. Blocks on small files."""
    groups: list[ToolGroup] = []
    for file in sorted(folder.glob("*.json")):
        try:
            kept = json.loads(read_private(file) or b"[]")
            groups += [ToolGroup(**{**one, **_tuples(one)}) for one in kept]
        except (UnsafeFile, ValueError, TypeError, KeyError):
            continue  # it can be made again, and nothing depends on it
    return tuple(groups)


async def split(toolset: Toolset, settings: Settings, place: Place) -> Split:
    """Have the model of the settings divide the source's tools, and keep how. Raises CodeagentError."""
    if settings.model is None:
        raise ConfigError("no model is set: give --model NAME; nothing was asked")
    model = await open_model(settings.model, settings.api_base, place, model_options(settings))
    usage, text = Usage(), ""
    try:
        async for event in model.stream(ask_for_split(toolset.name, toolset.tools)):
            if isinstance(event, ModelAnswer):
                usage, text = event.usage, event.message.text
    finally:
        await model.close()
    try:
        groups = read_split(text, toolset.name, toolset.tools)
    except NoPartition as error:
        raise SplitFailed(f"{toolset.name} stays one set: {error}", usage) from None
    file = place.splits / f"{sha256(toolset.name.encode()).hexdigest()[:16]}.json"
    try:
        replace_private(file, json.dumps([asdict(group) for group in groups], indent=1).encode())
    except OSError as error:
        raise SplitFailed(f"{toolset.name} stays one set: {file} cannot be written ({error.strerror})", usage) from None
    return Split(groups, usage)


def _tuples(kept: dict[str, object]) -> dict[str, tuple[str, ...]]:
    lists = {name: kept[name] for name in ("tools", "tags", "paths")}
    return {name: tuple(map(str, value)) for name, value in lists.items() if isinstance(value, list)}
