"""The output_read tool pages through what was cut."""

import pytest

from codeagent.core.tool import InvalidArgs, NotFound
from tests.toolbox import Toolbox


async def test_pages_say_where_they_are_and_how_to_go_on(box: Toolbox) -> None:
    box.outputs.texts["h1"] = "\n".join(f"line {n}" for n in range(1, 11))
    assert await box.text("output_read", id="h1", offset=2, lines=2) == (
        "line 2\nline 3\n[Lines 2-3 of 10. Continue with offset=4.]"
    )
    assert (await box.text("output_read", id="h1", offset=10)).endswith(
        "line 10\n[Lines 10-10 of 10.]"
    )
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
    assert "[… 46000 more characters in this line: offset=1, column=4001]" in text


async def test_every_character_of_a_long_line_can_be_reached(box: Toolbox) -> None:
    line = "".join(chr(ord("a") + number % 26) for number in range(100_003))
    box.outputs.texts["h1"] = f"first\n{line}\nlast"
    seen, column = line[:4000], 4001
    while column <= len(line):
        text, _, note = (
            await box.text("output_read", id="h1", offset=2, column=column)
        ).rpartition("\n")
        assert note.startswith(
            f"[Characters {column}-{column + len(text) - 1} of 100003 in line 2 of 3."
        )
        seen, column = seen + text, column + len(text)
    assert seen == line
    with pytest.raises(InvalidArgs, match="column 100004 is past its end"):
        await box.call("output_read", id="h1", offset=2, column=100_004)
    assert (
        await box.text("output_read", id="h1", column=1)
        == "first\n[Characters 1-5 of 5 in line 1 of 3.]"
    )


async def test_what_is_paged_reads_as_the_rest_of_the_output_did(box: Toolbox) -> None:
    box.outputs.texts["h1"] = "\x1b[31mred\x1b[0m\n10%\r50%\r100%\nnul\x00bell\x07 \udcff"
    assert (await box.text("output_read", id="h1")).startswith("red\n100%\nnulbell \\xff\n")


def test_its_own_answer_is_never_cut_again(box: Toolbox) -> None:
    assert box.tool("output_read").output_limit is None
