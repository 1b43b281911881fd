"""A session that leaves its terminal works on as the user has set it now."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.extensions.board import holder, page
from tests.tui.replay import ReplayApp, settled


async def test_the_session_keeps_the_mode_and_the_steps_that_it_has_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []

    def started(words: Sequence[str]) -> tuple[bool, str]:
        moved.extend(words)
        return True, "it works elsewhere"

    monkeypatch.setattr(page, "start_held", started)
    monkeypatch.setattr(ReplayApp, "action_quit", lambda app: moved.append("quit"))
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test() as pilot:
        await settled(pilot)
        chat = app.chat
        chat.launch_options = replace(
            chat.launch_options, mode="accept-edits", flags={"network": "none", "tools": ("a", "b")}
        )
        chat.state.status.set(mode="plan", stepping=True, session="s1")
        await page.detach(chat, "")
        assert not chat.state.status.now.conversation.session, "--resume is not offered"
    said = " ".join(moved)
    assert "--mode plan --step --network none --tools a,b quit" in said
    assert "accept-edits" not in said and "--detach" in moved


def test_a_screen_below_the_lines_of_the_shell_cannot_be_detached_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder.sys, "argv", ["codeagent", "--inline", "--detach", "go"])
    with pytest.raises(ConfigError, match="--inline"), holder.detached(tmp_path, "go"):
        pass
