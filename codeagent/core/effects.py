"""What a command did in a copy-on-write view of the workspace."""

from typing import Literal

from codeagent.core.dataclass import dataclass

EntryKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True)
class LayerEntry:
    """What is at a path: a file, a folder, a link, or something that never lands."""

    kind: EntryKind
    device: int
    inode: int
    mode: int
    """Permission bits, set-id bits among them."""
    size: int
    """Bytes of a file or of a link's target; 0 for anything else."""
    modified_ns: int
    changed_ns: int
    """When its content, mode or name last changed."""
    links: int = 1
    """How many names a file has."""
    attributes: tuple[tuple[str, str], ...] = ()
    """The extended attributes of a folder whose mode or attributes a layer changes; values in
    hexadecimal digits."""

    def is_still(self, now: "LayerEntry | None") -> bool:
        """Whether `now` is this very file with the same content; renaming it changes neither."""
        if now is None or self.kind == "folder":
            return now is not None and (self.device, self.inode) == (now.device, now.inode)
        return (self.device, self.inode, self.size, self.modified_ns) == (
            now.device,
            now.inode,
            now.size,
            now.modified_ns,
        )

    def is_untouched(self, now: "LayerEntry | None") -> bool:
        """Whether `now` is this very file, and not even its mode or its names changed."""
        if now is None or self.kind == "folder":
            return self.is_still(now) and now is not None and self.mode == now.mode
        return self == now


@dataclass(frozen=True)
class Effect:
    """What a command did at one path; those of a folder come before those of what is in it."""

    path: str
    """Relative to the root."""
    before: LayerEntry | None
    after: LayerEntry | None
    """None: it was removed."""
    only_times: bool = False
    """Whether content and mode are as before."""
