"""The board that a command opens without a conversation."""

from pathlib import Path

import pytest

from codeagent.extensions.board.page import BoardApp, BoardPage
from tests.tui.replay import until


async def test_a_mistake_in_the_file_of_keys_is_said_and_the_board_opens_with_its_own_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "codeagent/keys.yaml"
    file.parent.mkdir()
    file.write_text("mcp.yes: f5\nboard.stop: f6\n")
    app = BoardApp(BoardPage(tuple, str), "ink")
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "was replaced by 'server.yes'" in drawn(app))
        await pilot.press("escape")
    assert app.keys.overrides == {} and app.chosen == ""


def drawn(app: BoardApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())
