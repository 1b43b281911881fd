"""The marks of formats with one tag per argument."""

import re
from dataclasses import dataclass
from functools import cached_property

from codeagent.llm.protocols.marks import Mark, Part, Run

KEY = Run(r'[^"<>\n]', 1, 1000, name="key")
_REST = Run(r"[^<>\n]", name="rest")


@dataclass(frozen=True)
class Tags:
    """The marks within one such format's block."""

    nested: str
    """How every block begins: one within a value belongs to the value, up to its end."""
    end: str
    argument_head: str
    argument_rest: tuple[Part, ...]
    """What completes the opening tag of an argument; its groups are `key` and maybe `rest`, which may say the type."""
    argument_end: str
    trims_lines: bool = False
    """A value stands on lines of its own: one line break before and after it is not part of it."""
    cdata: bool = True

    @cached_property
    def argument(self) -> Mark:
        return Mark((self.argument_head, *self.argument_rest), None)

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """What matters within a value."""
        return (self.argument_end, self.end, self.nested, "\n" + self.argument_head)

    @cached_property
    def in_value(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self.literals)))


def attribute_tags(block: str, argument: str) -> Tags:
    """`<block name="tool">`, `<argument name="key">`."""
    rest = (Run(r"\s", 0), 'name="', KEY, '"', _REST, ">")
    return Tags(f"<{block}", f"</{block}>", f"<{argument}", rest, f"</{argument}>")


QWEN = Tags(
    nested="<function=",
    end="</function>",
    argument_head="<parameter=",
    argument_rest=(Run(r"[^<>\n]", 1, 1000, name="key"), ">"),
    argument_end="</parameter>",
    trims_lines=True,
    cdata=False,
)
GLM = Tags(
    nested="<tool_call>",
    end="</tool_call>",
    argument_head="<arg_key>",
    argument_rest=(Run(r"[^<>\n]", 1, 1000, name="key"), "</arg_key>", Run(r"\s"), "<arg_value>"),
    argument_end="</arg_value>",
    cdata=False,
)
