"""What a command did in a view of the workspace: how it is treated, listed and shown."""

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from codeagent.changes.change_set import diff_blocks
from codeagent.changes.diff import count, review_block
from codeagent.changes.hunks import Answered, is_by_hunk
from codeagent.changes.landing import folders_of
from codeagent.core.approval_events import ListedEffect
from codeagent.core.changes import Change, content_name
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.display import DiffBlock, Hunk, HunkAnswer, cut
from codeagent.core.effects import Effect, LayerEntry
from codeagent.core.paths import host_reason, protected_part, secret_reason
from codeagent.core.patterns import IgnoreRules
from codeagent.core.policy import EFFECTS, ApprovalKey
from codeagent.core.sanitize import spelled
from codeagent.core.tool import Failed
from codeagent.tools.shell.rules import that_allows

_NOT_PLAIN = re.compile(r"[*?\s()]")


@dataclass(frozen=True)
class EffectGroups:
    """What a command did, by how it is treated."""

    asked: tuple[Effect, ...] = ()
    """What is asked about."""
    unasked: tuple[Effect, ...] = ()
    """Files that the ignore rules leave out, and files of which only the times differ."""
    left: tuple[Effect, ...] = ()
    """What never lands: what is protected, or is neither file, folder nor link."""
    theirs: tuple[Effect, ...] = ()
    """What somebody else changed while the command ran."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """The number of files among `unasked`, by the file or folder that the ignore rules name."""

    @classmethod
    def of(
        cls,
        effects: Sequence[Effect],
        began_ns: int,
        rules: IgnoreRules | None,
        named: Callable[[str], bool],
    ) -> "EffectGroups":
        """`rules`: None if nothing is ignored. `named`: whether a rule denies or asks about a
        path."""
        ignored_by: dict[str, str] = {"": ""}
        ignores = rules.ignored if rules is not None else lambda path, folder: False

        def ignoring(path: str, folder: bool = True) -> str:
            """Return the file or folder that is ignored, and the path with it; else nothing."""
            if path not in ignored_by:
                whole = f"{path}/" if folder else path
                above = ignoring(path.rpartition("/")[0])
                ignored_by[path] = above or (whole if ignores(path, folder) else "")
            return ignored_by[path]

        groups: dict[str, list[Effect]] = {"asked": [], "unasked": [], "left": [], "theirs": []}
        ignored = Counter[str]()
        for effect in effects:
            path, after = effect.path, effect.after
            by = ignoring(path, _is_folder(effect))
            if protected_part(path) or (after is not None and after.kind == "other"):
                groups["left"].append(effect)
            elif effect.before is not None and effect.before.changed_ns > began_ns:
                groups["theirs"].append(effect)
            elif named(path) or not (effect.only_times or (by and not _matters(effect))):
                groups["asked"].append(effect)
            else:
                groups["unasked"].append(effect)
                if by and not (effect.only_times or _is_folder(effect)):
                    ignored[spelled(by)] += 1
        return cls(**{name: tuple(found) for name, found in groups.items()}, ignored=ignored)

    @property
    def shown(self) -> tuple[Effect, ...]:
        """Return what is asked about, what matters most first, without folders that are new or gone
        and of which something in it says so already."""
        said = {folder for effect in self.asked for folder in folders_of(effect.path)}
        shown = [
            effect
            for effect in self.asked
            if effect.path not in said
            or not _is_folder(effect)
            or None not in (effect.before, effect.after)
        ]
        return tuple(sorted(shown, key=lambda effect: not _matters(effect)))


def _is_folder(effect: Effect) -> bool:
    return {side.kind for side in (effect.before, effect.after) if side is not None} == {"folder"}


def _matters(effect: Effect) -> bool:
    """Whether a program of the user's would run the file, or it may hold secrets."""
    path = effect.path
    return not _is_folder(effect) and bool(secret_reason(path) or host_reason(path))


@dataclass(frozen=True)
class ShownEffect:
    """What is taken or left out as one: a change, or a file that was renamed."""

    listed: ListedEffect
    paths: tuple[str, ...]
    change: Change[Node] | None
    """None if its contents were not read, it was renamed, or it has several names: a part that is
    taken of one would be taken of all."""
    block: DiffBlock
    """The change of a text, or else two lines that say what was there and what is."""
    hunks: int

    @property
    def is_folder(self) -> bool:
        return self.listed.path.endswith("/")

    @property
    def by_hunk(self) -> bool:
        """Whether a part of it can be taken."""
        return self.change is not None and is_by_hunk(self.change)


def shown_effects(
    effects: Sequence[Effect], changes: Sequence[Change[Node]]
) -> tuple[ShownEffect, ...]:
    """Return the effects as they are shown; a file that came and one that went with the same
    content are one that was renamed."""
    gone: dict[str, list[str]] = {}
    for change in changes:
        if change.after is None and change.before is not None and change.before.data:
            gone.setdefault(content_name(change.before), []).append(change.path)
    sources: dict[str, str] = {}
    for change in changes:
        if change.before is None and (same := gone.get(content_name(change.after))):
            sources[change.path] = same.pop(0)
    read = {change.path: change for change in changes}
    by_path = {effect.path: effect for effect in effects}
    renamed = {*sources.values()}
    return tuple(
        _shown(effect, read.get(path), by_path.get(sources.get(path, "")))
        for path, effect in by_path.items()
        if path not in renamed
    )


def _shown(effect: Effect, change: Change[Node] | None, source: Effect | None) -> ShownEffect:
    before = effect.before if source is None else source.before
    path = spelled(effect.path) + "/" * _is_folder(effect)
    if source is not None:
        old = spelled(source.path)
        note = _note(before, effect.after, None)
        listed = ListedEffect(path=path, what="renamed", source=old, note=note)
        block = DiffBlock(path=path, before=f"{old}\n", after=f"{path}\n")
        return ShownEffect(listed, (source.path, effect.path), None, block, 1)
    blocks = () if change is None else diff_blocks(change)
    hunks = [hunk for block in blocks for hunk in cut(block.before, block.after)]
    block = blocks[0] if hunks else _described(path, effect, change)
    added, removed = _counted(block, hunks) if hunks else (None, None)
    listed = ListedEffect(
        path=path,
        what="added" if before is None else "deleted" if effect.after is None else "modified",
        note=_note(before, effect.after, change),
        added=added,
        removed=removed,
    )
    if effect.after is not None and effect.after.links > 1:
        change = None
    return ShownEffect(listed, (effect.path,), change, block, len(hunks) or 1)


def _counted(block: DiffBlock, hunks: Sequence[Hunk]) -> tuple[int, int]:
    """Return the numbers of lines added and removed; what follows the last newline is a line only
    if it is not empty."""
    total = block.before.count("\n") + 1
    added = removed = 0
    for hunk in hunks:
        at_end = hunk.start + len(hunk.old) == total
        added += len(hunk.new) - (at_end and hunk.new[-1:] == ("",))
        removed += len(hunk.old) - (at_end and hunk.old[-1:] == ("",))
    return added, removed


def _described(path: str, effect: Effect, change: Change[Node] | None) -> DiffBlock:
    """Return what is not shown line by line, as a line for each side; the two differ."""
    if change is not None and (linked := review_block(change)) is not None:
        return linked
    was, is_ = (_described_side(side) for side in (effect.before, effect.after))
    return DiffBlock(path=path, before=was and f"was {was}\n", after=is_ and f"is {is_}\n")


def _described_side(side: LayerEntry | None) -> str:
    if side is None:
        return ""
    size = f" of {count(side.size, 'byte')}" if side.kind != "folder" else ""
    return f"a {side.kind}{size}, mode {side.mode:o}"


def _note(before: LayerEntry | None, after: LayerEntry | None, change: Change[Node] | None) -> str:
    if change is not None and change.note:
        return change.note
    if before is None or after is None or before.mode == after.mode:
        return ""
    return f"mode {before.mode:o} → {after.mode:o}"


def taken_by_hunk(
    shown: Sequence[ShownEffect], answers: Sequence[HunkAnswer]
) -> tuple[set[str], list[Change[Node]]]:
    """Return the paths of which nothing is taken, and the changes of which a part is.

    What cannot be split is left out unless all of it was accepted as it is. Raises Failed if the
    answers do not fit.
    """
    if sum(each.hunks for each in shown) != len(answers):
        raise Failed("the answers do not fit what it changed")
    left: set[str] = set()
    parts: list[Change[Node]] = []
    rest = list(answers)
    for each in shown:
        own, rest = rest[: each.hunks], rest[each.hunks :]
        if each.change is None or not each.by_hunk:
            left |= set() if all(answer is True for answer in own) else {*each.paths}
            continue
        answered = Answered.of(each.change, own)
        if answered.left_out:
            left |= {*each.paths}
        elif not answered.whole:
            parts.append(answered.took)
    return left, parts


def effects_proposal(paths: Sequence[str], key: ApprovalKey) -> str:
    """Return a rule for the deepest folder that all of the paths are in, or else for their suffix
    or the only path; empty if none can be proposed."""
    folder = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    suffixes = {posixpath.splitext(path)[1] for path in paths}
    if folder:
        wanted = f"{folder}/**"
    elif len(paths) == 1:
        wanted = paths[0]
    else:
        wanted = f"**/*{suffixes.pop()}" if len(suffixes) == 1 else ""
    odd = _NOT_PLAIN.search(wanted.removesuffix("/**").removeprefix("**/*"))
    plain = spelled(wanted) == wanted and not odd
    return that_allows(f"{EFFECTS}({wanted})", EFFECTS, key) if plain else ""
