from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal

from codeagent import ToolContext, register_tool


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Order:
    """An order."""

    name: str
    size: Size = Size.SMALL


@register_tool(timeout=5)
def place_order(
    ctx: ToolContext,
    order: Order,
    how: Literal["fast", "slow"] = "fast",
    more: Annotated[tuple[int, ...], "How many."] = (),
) -> str:
    """Places an order.

    Args:
        order: What is wanted.
        how: How fast.
    """
    return f"{order} {how} {more}"
