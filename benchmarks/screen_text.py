"""What models say in the screen's benchmarks: Markdown of a known number of tokens."""

import itertools
import re

LAST = "the-very-last-word"
_WORDS = re.findall(
    r"\w+",
    "the parser reads a line at a time and keeps what it saw so that a later error can name the place",
)


def answer_of(tokens: int) -> str:
    """About that many tokens of paragraphs, lists, short code blocks; its last word is `LAST`."""
    words = itertools.cycle(_WORDS)
    parts: list[str] = []
    count = 0
    for number in itertools.count(1):
        if count >= tokens:
            break
        paragraph = [next(words) for _ in range(60)]
        items = [" ".join(next(words) for _ in range(6)) for _ in range(4)]
        code = [f"    value_{line} = compute({line}, other={number})" for line in range(5)]
        parts.append(f"## Step {number}\n\n{' '.join(paragraph)} with `code` and **weight**.\n")
        parts.append("\n".join(f"- {item}" for item in items) + "\n")
        parts.append("```python\ndef step():\n" + "\n".join(code) + "\n```\n")
        count += 60 + 24 + 6 * 5 + 10
    return "\n".join([*parts, LAST])


def fence_of(lines: int) -> str:
    """One code block of that many lines, then `LAST`."""
    body = "\n".join(
        f"value_{number} = compute({number}, 'text')  # line {number}" for number in range(lines)
    )
    return f"```python\n{body}\n```\n\n{LAST}"
