"""The real app over the real agent: a prompt that a hook denies comes back to the composer with the
reason."""

import asyncio
import sys

import pytest

from codeagent.app import LocalApp
from codeagent.commands.launcher import LocalLauncher
from codeagent.tui.app import CodeagentApp
from codeagent.tui.launcher import AppFolders, LaunchOptions
from codeagent.tui.session_client import SessionClient
from codeagent.tui.state import UiState
from codeagent.tui.transcript.blocks import Remark
from tests.e2e.product import Product, of, say

GUARD = """
import json, sys
if "card" in json.load(sys.stdin)["text"]:
    print(json.dumps({"decision": "deny", "reason": "it names a card"}))
"""


async def test_a_denied_prompt_is_back_in_the_composer_and_the_next_one_is_sent(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in product.environment.items():
        monkeypatch.setenv(name, value)
    (product.home / "guard.py").write_text(GUARD)
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[[hooks]]\nevent = "prompt_submit"\ncommand = ["{sys.executable}", "{product.home}/guard.py"]\n'
    )
    model = product.script(say("Hello."))

    async def open_client(state: UiState, options: LaunchOptions) -> SessionClient:
        return SessionClient(LocalLauncher(product.workspace, LocalApp()), state)

    folders = AppFolders(product.home / "state", product.home / "config", product.workspace)
    app = CodeagentApp(
        open_client, LaunchOptions(model=model, flags={"sandbox": "off"}, proceed=True), folders
    )
    async with app.run_test(size=(80, 24)) as pilot:
        state = app.chat.state

        async def until_idle() -> None:
            async with asyncio.timeout(20):
                while state.status.now.run.phase != "idle":  # noqa: ASYNC110  # whatever it waits for, it shows here
                    await asyncio.sleep(0.02)
            await pilot.pause()

        await until_idle()
        await pilot.press(*"mycard", "enter")
        await until_idle()
        assert app.chat.composer.text == "mycard"
        remarks = [block.text for block in state.document.blocks if isinstance(block, Remark)]
        assert remarks[-1] == "the prompt was not sent: a hook denied it: it names a card"
        await pilot.press("ctrl+u", *"hello", "enter")
        await until_idle()
        await app.chat.end()
    assert [event["reason"] for event in of(product.log(), "run.finished")] == ["done"]
