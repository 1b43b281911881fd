"""What a call would make of one file: shown first, and applied only to the file that was shown."""

from dataclasses import dataclass

from codeagent.core.errors import ContentChanged
from codeagent.core.tool import BaseChanged, Preview, ToolContext
from codeagent.tools.diff import Region, diff_block, region
from codeagent.tools.encoding import TextFile, shown
from codeagent.tools.seen import Seen, digest

_STALE = (
    "The file was no longer as you read it; the user saw what this makes of it and wanted it. Read it again before you "
    "change more of it."
)


@dataclass(frozen=True)
class Change:
    """One file's content before and after."""

    path: str
    old: bytes | None
    """None where the file does not exist yet."""
    file: TextFile
    """The content before; empty where there is none."""
    after: str
    data: bytes
    """The bytes of `after`."""
    known: Seen
    """What the model had seen of the content before."""

    @property
    def before(self) -> str:
        return self.file.text

    @property
    def base(self) -> str | None:
        """The SHA-256 the file must still have when it is written."""
        return None if self.old is None else digest(self.old)

    @property
    def binding(self) -> str:
        """What an approval of this change is bound to."""
        return binding(self.path, self.old)

    @property
    def region(self) -> Region:
        """Where it changes the file: what an answer hunk by hunk is about."""
        return region(self.before, self.after)

    def preview(self) -> Preview:
        part = self.region
        by_hunk = part.before != part.after and part.is_shown_whole
        block = diff_block(self.path, self.before, self.after)
        return Preview(shown(self.path), (block,), base=self.binding, by_hunk=by_hunk)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the model is told besides."""
        return (_STALE,) if self.known.stale else ()

    def check(self, ctx: ToolContext) -> None:
        """Raises BaseChanged where something else was approved."""
        if ctx.base is not None and ctx.base != self.binding:
            raise BaseChanged

    def apply(self, ctx: ToolContext) -> None:
        """Write it. Raises BaseChanged where something else was approved, WorkspaceError."""
        self.check(ctx)
        try:
            ctx.workspace.write(self.path, self.data, base=self.base)
        except ContentChanged:
            if ctx.base is not None:
                raise BaseChanged from None
            raise


def binding(path: str, content: bytes | None) -> str:
    """Names a file and what is in it; None: that there is none."""
    return f"{path}\n{'new' if content is None else digest(content)}"
