"""What becomes of a result that is too long for the model."""

import pytest

from codeagent.agent.calls import cap_output
from codeagent.core.messages import text_of
from codeagent.core.tool import ToolResult
from tests.agent.doubles import MemoryOutputs


@pytest.mark.parametrize(("length", "whole"), [(70, True), (50_000, False)])
def test_a_cut_leaves_whole_lines_and_cuts_only_long_ones(length: int, whole: bool) -> None:
    lines = [f"{number:06}{'x' * length}" for number in range(300_000 // length)]
    outputs = MemoryOutputs()
    content = text_of(
        cap_output(ToolResult.from_text("\n".join(lines)), 20_000, outputs, "c").content
    )
    head, _, tail = content.partition("\n[… ")
    assert len(content) < 20_200
    assert (head.split("\n")[-1] in lines) is whole
    assert (tail.split("\n")[1] in lines) is whole
    assert outputs.texts == {"out_1": "\n".join(lines)}


def test_what_fits_stays_as_it_is_and_a_limit_of_none_never_cuts() -> None:
    outputs = MemoryOutputs()
    short, long = ToolResult.from_text("x" * 10), ToolResult.from_text("x" * 10**6)
    assert cap_output(short, 10, outputs, "c") is short
    assert cap_output(long, None, outputs, "c") is long
    assert outputs.texts == {}
