"""`@register_tool` says that a function is a tool and does nothing else to it."""

import pytest

from codeagent import register_tool
from codeagent.extensions.user_tools.decorator import ToolMark, marked_as, marks_collected
from tests.table import for_each


def plain(x: int) -> int:
    """Doubles."""
    return 2 * x


def test_bare_and_with_arguments_it_returns_the_very_function() -> None:
    def one() -> None: ...
    def two() -> None: ...

    assert register_tool(one) is one and register_tool(name="other")(two) is two
    assert (marked_as(one), marked_as(two)) == (ToolMark(), ToolMark(name="other"))


def test_a_function_that_is_not_marked_is_no_tool() -> None:
    assert marked_as(plain) is None and marked_as(42) is None


def test_marks_are_collected_only_where_somebody_asks_for_them() -> None:
    def inside() -> None: ...
    def outside() -> None: ...

    with marks_collected() as found:
        register_tool(inside)
    register_tool(outside)
    assert found == [inside]


@for_each("thing", [int, "text", len, property(plain)])
def test_only_functions_can_be_marked(thing: object) -> None:
    with pytest.raises(TypeError, match="register_tool marks functions"):
        register_tool(thing)  # type: ignore[call-overload]  # what is tested


@for_each(
    ("said", "problem"),
    [
        ({"approval": "always"}, "approval is one of auto, prompt, deny, effects, not 'always'"),
        ({"effect": "some"}, "effect is one of nothing, files, anything, not 'some'"),
        ({"mode": "async"}, "mode is one of direct, background, stateful, not 'async'"),
        ({"timeout": -1}, "timeout is a number above 0, not -1"),
        ({"timeout": True}, "timeout is a number above 0, not True"),
        ({"max_calls": 1.5}, "max_calls is a number above 0, not 1.5"),
        ({"output_limit": "all"}, "output_limit is a number above 0, not 'all'"),
        ({"sandbox": 1}, "sandbox is True or False, not 1"),
        ({"require_info": "yes"}, "require_info is True or False, not 'yes'"),
        ({"hint": 3}, "hint is a string, not 3"),
        (
            {"aproval": "auto"},
            "register_tool has no argument 'aproval'; it takes name, label, description, approval, ",
        ),
    ],
)
def test_what_it_is_told_wrong_is_said_at_once(said: dict[str, object], problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        register_tool(**said)  # type: ignore[call-overload]  # what is tested
    assert str(caught.value).startswith(problem)
