"""Much of what begins and never ends, a megabyte in a soak: read to the end, nothing run, nothing
lost."""

import pytest

from codeagent.extensions.text_calls.formats import TextProtocol
from tests.effort import FACTOR
from tests.extensions.text_calls.reading import PROTOCOLS, broken, calls, read, text

_SIZE, _LARGEST = (200_000, 1_000_000) if FACTOR else (5_000, 30_000)
_LONGEST = {"<", "{", "`"}
_TEXT = [*sorted(_LONGEST), "[", "~", "` ", "{ ", "\n", "<tool", '{"a": ', "```\n"]
_OPEN = [
    "<tool_call>{",
    '<tool_call>["',
    "<function=a><parameter=b>",
    '<invoke name="a"><parameter name="b">',
    "<<call {",
]


def chunks(pattern: str) -> list[str]:
    whole = pattern * ((_LARGEST if pattern in _LONGEST else _SIZE) // len(pattern))
    return [whole[start : start + 997] for start in range(0, len(whole), 997)]


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("pattern", _TEXT)
@pytest.mark.parametrize("protocol", PROTOCOLS[:4], ids=lambda protocol: protocol.name)
def test_text_that_never_becomes_a_call_comes_out_whole(
    protocol: TextProtocol, pattern: str
) -> None:
    pieces = read(protocol, chunks(pattern))
    assert text(pieces) == "".join(chunks(pattern))
    assert not calls(pieces) and not broken(pieces)


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("pattern", _OPEN)
@pytest.mark.parametrize("protocol", PROTOCOLS[:4], ids=lambda protocol: protocol.name)
def test_blocks_that_never_end_never_run(protocol: TextProtocol, pattern: str) -> None:
    assert calls(read(protocol, chunks(pattern))) == []
