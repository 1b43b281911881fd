"""A file that is read again: only what the model's context still holds, word for word, is not shown
a second time."""

import json
from dataclasses import replace

import pytest

from codeagent.core.messages import text_of
from codeagent.core.tool import CallingAgent, Failed, ToolResult
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.edit.reads import ReadTracker
from tests.fakes import put, tool_context
from tests.table import for_each
from tests.toolbox import Toolbox

FOUR = "one\ntwo\nthree\nfour\n"


class Reader:
    """A model's context over a toolbox: what its calls of `read` answered, by call id."""

    def __init__(self, box: Toolbox) -> None:
        self.box = box
        self.context: dict[str, str] = {}
        self.details: list[tuple[str, ToolResult]] = []

    async def read(self, path: str = "a.txt", **page: int) -> str:
        tool = self.box.tool("read")
        args = parse_arguments(tool, json.dumps({"path": path, **page}))
        call_id = f"r{len(self.details) + 1}"
        given = replace(
            tool_context(self.box.workspace),
            call_id=call_id,
            caller=CallingAgent(recall=lambda asked: self.context.get(asked, "")),
        )
        result = await tool.run(args, given)
        self.details.append((call_id, result))
        self.context[call_id] = text_of(result.content)
        return self.context[call_id]


async def test_an_unchanged_file_is_not_shown_twice(box: Toolbox) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    assert await reader.read() == "1\tone\n2\ttwo\n3\tthree\n4\tfour"
    assert await reader.read() == (
        "[a.txt is unchanged since line 1 of your last read, which is still above. Lines 1-4 of 4.]"
    )
    assert await reader.read(offset=2, limit=2) == (
        "[a.txt is unchanged since line 2 of your last read, which is still above. Lines 2-3 of 4. "
        "Continue with offset=4.]"
    )


@for_each("first, again", [((1, 2), (1, 3)), ((1, 2), (3, 2)), ((2, 2), (1, 4)), ((3, 1), (2, 2))])
async def test_a_page_that_was_not_shown_as_a_whole_is_shown(
    box: Toolbox, first: tuple[int, int], again: tuple[int, int]
) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    await reader.read(offset=first[0], limit=first[1])
    assert (await reader.read(offset=again[0], limit=again[1])).startswith(f"{again[0]}\t")


@for_each(
    "kept",
    [
        "",
        "[pruned]",
        "1\tone\n[… 12 characters left out …]\n4\tfour",
        "1\tone\n2\t[secret X]\n3\tthree\n4\tfour",
    ],
)
async def test_what_the_context_no_longer_holds_word_for_word_is_shown_again(
    box: Toolbox, kept: str
) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    await reader.read()
    reader.context["r1"] = kept
    assert await reader.read() == "1\tone\n2\ttwo\n3\tthree\n4\tfour"


async def test_a_page_within_what_is_left_of_a_shortened_result_is_not_shown_twice(
    box: Toolbox,
) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    await reader.read()
    reader.context["r1"] = "1\tone\n2\ttwo\n[… the rest is left out …]"
    assert "unchanged since line 1" in await reader.read(limit=2)
    assert await reader.read(offset=3) == "3\tthree\n4\tfour"


async def test_a_changed_file_is_shown_even_where_its_lines_are_the_same(box: Toolbox) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    await reader.read()
    put(box.root, "a.txt", "one\ntwo\nthree\n4\n")
    assert (await reader.read(limit=2)).startswith("1\tone\n2\ttwo\n")


async def test_a_file_that_was_changed_by_the_model_and_put_back_by_somebody_else_is_shown(
    box: Toolbox,
) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    await reader.read()
    await box.call("edit", path="a.txt", old_string="four", new_string="4")
    put(box.root, "a.txt", FOUR)
    assert await reader.read() == "1\tone\n2\ttwo\n3\tthree\n4\tfour"


async def test_another_file_with_the_same_lines_is_shown(box: Toolbox) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    put(box.root, "b.txt", FOUR)
    await reader.read()
    assert await reader.read("b.txt") == "1\tone\n2\ttwo\n3\tthree\n4\tfour"


async def test_a_file_that_was_only_told_as_unchanged_the_second_time_can_be_edited(
    box: Toolbox,
) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    await reader.read(limit=2)
    await reader.read(limit=1)
    with pytest.raises(Failed, match=r"lines 3-3 of .* were not read"):
        await box.call("edit", path="a.txt", old_string="e", new_string="E", replace_all=True)
    await box.call("edit", path="a.txt", old_string="one", new_string="1")
    assert box.content("a.txt") == "1\ntwo\nthree\nfour\n"


async def test_only_the_earlier_result_proves_that_a_file_was_read(box: Toolbox) -> None:
    reader = Reader(box)
    put(box.root, "a.txt", FOUR)
    await reader.read()
    await reader.read()
    (_, shown), (_, told) = reader.details
    tracker = ReadTracker(box.workspace)
    tracker.keep_only([shown.details])
    assert tracker.check("a.txt", FOUR.encode()).whole
    tracker.keep_only([told.details])
    with pytest.raises(Failed, match="conversation was compacted"):
        tracker.check("a.txt", FOUR.encode())
