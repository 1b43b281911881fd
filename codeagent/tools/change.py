"""What a call would make of one file: shown first, and applied only to the file that was shown."""

from dataclasses import dataclass

from codeagent.core.errors import ContentChanged
from codeagent.core.tool import BaseChanged, Preview, ToolContext
from codeagent.tools.diff import diff_block
from codeagent.tools.encoding import shown
from codeagent.tools.seen import digest


@dataclass(frozen=True)
class Change:
    """One file's content before and after."""

    path: str
    old: bytes | None
    """None where the file does not exist yet."""
    before: str
    after: str
    data: bytes
    """The bytes of `after`."""

    @property
    def base(self) -> str | None:
        """The SHA-256 the file must still have when it is written."""
        return None if self.old is None else digest(self.old)

    @property
    def binding(self) -> str:
        """What an approval of this change is bound to."""
        return f"{self.path}\n{self.base or 'new'}"

    def preview(self) -> Preview:
        block = diff_block(self.path, self.before, self.after)
        return Preview(shown(self.path), (block,), base=self.binding)

    def apply(self, ctx: ToolContext) -> None:
        """Write it. Raises BaseChanged where something else was approved, WorkspaceError."""
        if ctx.base is not None and ctx.base != self.binding:
            raise BaseChanged
        try:
            ctx.workspace.write(self.path, self.data, base=self.base)
        except ContentChanged:
            if ctx.base is not None:
                raise BaseChanged from None
            raise
