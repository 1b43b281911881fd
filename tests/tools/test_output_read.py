"""The output_read tool pages through what was cut."""

import pytest

from codeagent.core.tool import InvalidArgs, NotFound
from tests.tools.conftest import Toolbox


async def test_pages_say_where_they_are_and_how_to_go_on(box: Toolbox) -> None:
    box.outputs.texts["h1"] = "\n".join(f"line {n}" for n in range(1, 11))
    assert await box.text("output_read", id="h1", offset=2, lines=2) == (
        "line 2\nline 3\n[Lines 2-3 of 10. Go on with offset=4.]"
    )
    assert (await box.text("output_read", id="h1", offset=10)).endswith("line 10\n[Lines 10-10 of 10.]")
    with pytest.raises(InvalidArgs, match="has 10 lines"):
        await box.call("output_read", id="h1", offset=11)


async def test_an_unknown_id_is_answered_with_the_known_ones(box: Toolbox) -> None:
    with pytest.raises(NotFound, match="there are: none"):
        await box.call("output_read", id="x")
    box.outputs.texts["h1"] = "a"
    with pytest.raises(NotFound, match="there are: h1"):
        await box.call("output_read", id="x")


async def test_a_page_is_bounded_however_long_its_lines(box: Toolbox) -> None:
    box.outputs.texts["h1"] = "\n".join("x" * 50_000 for _ in range(100))
    text = await box.text("output_read", id="h1")
    assert len(text) < 65_000
    assert "46000 more characters in this line" in text
