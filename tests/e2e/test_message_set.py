"""Messages between two agents of one process, each opened as the product opens it, over one hub."""

import asyncio
from pathlib import Path

from codeagent.agent.channels import Hub
from codeagent.bootstrap import Place, open_runtime
from codeagent.config.settings import Settings
from codeagent.core.events import KnownEvent, MessageAdded, TurnFinished
from codeagent.core.messages import UserMessage, text_of
from codeagent.core.notices import MessageReceived
from codeagent.core.runtime import Runtime
from tests.e2e.product import Product, calls, of, results, say


class Opened:
    """One agent of the hub, and what happened in it."""

    def __init__(self, product: Product, hub: Hub, name: str, *turns: object) -> None:
        self.events: list[KnownEvent] = []
        self._turned = asyncio.Event()
        self._hub, self._name = hub, name
        folder = product.home / name
        folder.mkdir()
        self._place = Place(product.workspace, folder, product.environment)
        self._settings = Settings.model_validate(
            {
                "model": product.script(*turns),  # type: ignore[arg-type]  # turns as the script has them
                "mode": "auto",
                "sandbox": {"kind": "off"},
                "toolsets": {"use": ["messages"]},
            }
        )
        self.runtime: Runtime | None = None

    async def open(self) -> "Opened":
        self.runtime = await open_runtime(
            self._settings, self._place, resume=None, tell=print, observer=self._see, attended=True,
            hub=(self._hub, self._name),
        )  # fmt: skip
        return self

    async def run(self, prompt: str) -> None:
        assert self.runtime is not None
        async for _ in self.runtime.agent.run(prompt):
            pass

    async def turned(self, count: int) -> None:
        """Until so many turns have ended."""
        while sum(isinstance(event, TurnFinished) for event in self.events) < count:
            self._turned.clear()
            await self._turned.wait()

    async def close(self) -> None:
        assert self.runtime is not None
        await self.runtime.close()

    def received(self) -> list[tuple[str, str, str | None]]:
        return [(one.sender, one.body, one.reply_to) for one in self.events if isinstance(one, MessageReceived)]

    def sources(self) -> list[tuple[str, str]]:
        messages = [event.message for event in self.events if isinstance(event, MessageAdded)]
        return [(one.source, text_of(one.content)) for one in messages if isinstance(one, UserMessage)]

    def _see(self, event: KnownEvent) -> None:
        self.events.append(event)
        self._turned.set()


async def test_two_scripted_agents_exchange_three_messages_over_a_queue_and_a_broadcast_channel(
    product: Product,
) -> None:
    hub = Hub()
    worker = await Opened(
        product, hub, "worker",
        calls(("watch_channel", {"channel": "work"}), ("watch_channel", {"channel": "all"})), say("ready"),
        calls(("send_message", {"to": "planner", "body": "12", "reply_to": "m1"})), say("counted"), say("bye"),
    ).open()  # fmt: skip
    planner = await Opened(
        product, hub, "planner",
        calls(("send_message", {"to": "work", "body": "count"})), say("waiting"),
        calls(("send_message", {"to": "all", "body": "thanks"})), say("done"),
    ).open()  # fmt: skip
    try:
        await worker.run("watch")
        await planner.run("go")
        await planner.turned(4)
        await worker.turned(5)
        assert worker.received() == [("planner", "count", None), ("planner", "thanks", None)]
        assert planner.received() == [("worker", "12", "m1")]
        assert planner.sources() == [
            ("prompt", "go"),
            ("note", "(message m2 from the agent worker to planner, in answer to m1:\n12)"),
        ]
        assert [source for source, _ in worker.sources()] == ["prompt", "note", "note"]
    finally:
        await worker.close()
        await planner.close()


def test_a_conversation_by_itself_has_nobody_to_write_to(product: Product) -> None:
    config = Path(product.home / "config/codeagent/config.toml")
    config.parent.mkdir(parents=True)
    config.write_text('[toolsets]\nuse = ["messages"]\n')
    model = product.script(calls(("channel_list", {}), ("send_message", {"to": "boss", "body": "hi"})), say("so"))
    listed, sent = results(product.run(model, "--output", "jsonl").events)
    assert "main: agent (you)" in listed["content"][0]["text"]
    assert sent["error"]["kind"] == "not_found"
    assert of(product.log(), "run.finished")[0]["reason"] == "done"
