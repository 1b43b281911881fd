"""What a page of the documentation tells its reader to do: files to save, commands to type, keys to
press and texts to see."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```(?P<kind>[a-z]+)\n(?P<text>.*?)```", re.DOTALL)
_SAVED = re.compile(r"Save this[^`]*as\s+`([^`]+)`")
_NAMED = re.compile(
    r"(?P<key>\b(?:(?:Ctrl|Alt|Shift)\+\w+|Enter|Esc|Tab|Up)\b)"
    r"|``\s+(?P<quoted>.+?)\s+``"
    r"|`(?P<typed>[^`\n]+)`"
    r"|\*\*(?P<letter>[a-z])\*\*"
    r"|(?<!\*)\*(?P<seen>[^*]+)\*(?!\*)"
)


@dataclass(frozen=True)
class SavedFile:
    """A file that the reader writes, by its path in the reader's folder."""

    path: str
    text: str


@dataclass(frozen=True)
class ShownCommand:
    """A command of a console block, with what the page says it prints."""

    line: str
    printed: str

    @property
    def is_ours(self) -> bool:
        return self.line.startswith("codeagent ")


def guide(page: str) -> str:
    """Return the text of a page, by its path from the root."""
    return (ROOT / page).read_text()


def steps(text: str) -> Iterator[SavedFile | ShownCommand]:
    """What the blocks of a page ask for, in their order."""
    end = 0
    for block in _BLOCK.finditer(text):
        before, end = text[end : block.start()], block.end()
        if block["kind"] == "console":
            yield from _commands(block["text"])
        elif saved := _SAVED.findall(before):
            yield SavedFile(saved[-1], block["text"])


def section(text: str, heading: str) -> str:
    """Return what is below a heading, without its blocks, up to the next heading."""
    [found] = re.findall(rf"(?ms)^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text)
    return _BLOCK.sub("", found)


def named(text: str) -> list[str]:
    """What prose names to press, to type or to see, without repetitions: keys, `code`, **a letter**
    and *quotes*."""
    found = (match[match.lastgroup or ""] for match in _NAMED.finditer(text))
    return list(dict.fromkeys(" ".join(each.split()) for each in found))


def _commands(block: str) -> Iterator[ShownCommand]:
    for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, printed = piece.partition("\n")
        yield ShownCommand(line, printed)
