"""Has a model divide the tools of a large source into sets: a run of its own, logged and held to
limits like any."""

import asyncio
from typing import TYPE_CHECKING

from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError
from codeagent.core.messages import Usage
from codeagent.tools.grouping import (
    SPLITTING,
    NoPartition,
    ToolGroup,
    keep_split,
    read_split,
    split_prompt,
)
from codeagent.tools.source import Listing

if TYPE_CHECKING:
    from codeagent.commands.ports import App


@dataclass(frozen=True)
class Split:
    """The sets that a model made of a source, and what that cost."""

    groups: tuple[ToolGroup, ...]
    usage: Usage


class SplitFailed(CodeagentError):
    """The source stays one set; `usage` is what asking cost."""

    def __init__(self, source: str, why: object, usage: Usage) -> None:
        super().__init__(f"{source} stays one set: {why}")
        self.usage = usage


async def split(
    source: str, listing: Listing, settings: Settings, local: LocalEnvironment, app: "App"
) -> Split:
    """Have the model of the settings divide the source's tools, and keep how. Raises
    CodeagentError."""
    finished = await app.ask(split_prompt(source, listing.tools), SPLITTING, settings, local)
    if finished.reason != "done":
        why = finished.error or "a limit was reached before the model had answered"
        raise SplitFailed(source, why, finished.usage)
    try:
        groups = read_split(finished.text, source, listing.tools)
        await asyncio.to_thread(keep_split, local.splits, source, groups)
    except NoPartition as error:
        raise SplitFailed(source, error, finished.usage) from None
    except OSError as error:
        raise SplitFailed(
            source, f"{error.filename} cannot be written ({error.strerror})", finished.usage
        ) from None
    return Split(groups, finished.usage)
