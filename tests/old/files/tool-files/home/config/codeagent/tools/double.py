from codeagent import register_tool


@register_tool
def double(value: int) -> int:
    """Doubles a number.

    Args:
        value: What is doubled.
    """
    return 2 * value
