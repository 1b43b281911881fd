"""Draws the pictures of the pages `/context`, `/config` and `/usage` again: `python
docs/page_pictures.py`."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from screenshot import ROOT, asks_about_effects

from codeagent.config.extensions import all_extensions
from codeagent.config.reference import every_setting
from codeagent.config.settings import LimitSettings, Settings
from codeagent.core.messages import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from codeagent.core.model import ModelRequest
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.usage.page import usage_facts
from codeagent.extensions.usage.requests import SpentRequest, SpentSession
from codeagent.extensions.usage.totals import totals
from codeagent.tui.context_facts import context_facts
from codeagent.tui.facts import Facts
from codeagent.tui.pages.config import settings_facts
from codeagent.tui.pages.facts import FactsPage
from codeagent.tui.status import UsageStatus
from tests.tui.replay import ReplayApp, settled

SIZE = (80, 24)
CALLS = (
    ("read", '{"path":"src/dates.py"}', 21_000),
    ("bash", '{"command":"pytest -q tests/test_dates.py"}', 34_500),
    ("search", '{"pattern":"is_leap"}', 6_100),
    ("read", '{"path":"docs/calendar.md"}', 58_000),
)
INSTRUCTIONS = "# Instructions of this workspace (AGENTS.md)\n<agents-md>\n{}\n</agents-md>"
SPENT = {
    "anthropic/claude-sonnet-4-5": (18_400, 1_210, 61_200_000),
    "openai/gpt-5": (9_100, 800, 22_400_000),
    "ollama/qwen3": (12_700, 950, None),
}
NOON = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))
FILE = "/home/ada/.config/codeagent/config.toml"


def context() -> Facts:
    tools = tuple(
        ToolDefinition(name, "x" * size, {})
        for name, size in (("bash", 2_900), ("edit", 2_100), ("read", 1_400), ("search", 1_100))
    )
    coming = ModelRequest("x" * 9_000 + "\n" + INSTRUCTIONS.format("x" * 5_200), (), tools)
    asked = [
        ToolCall(id=f"c{n}", name=name, arguments=given) for n, (name, given, _) in enumerate(CALLS)
    ]
    answered = (
        ToolMessage(call_id=call.id, name=call.name, content=(TextPart(text="x" * size),))
        for call, (_, _, size) in zip(asked, CALLS, strict=True)
    )
    said = (
        UserMessage.from_text("the date parser fails on leap days, fix it and add a test"),
        AssistantMessage(text="I'll look at the parser and its tests first.", calls=tuple(asked)),
        *answered,
    )
    usage = UsageStatus(context_tokens=38_214, context_window=128_000)
    return context_facts(usage, 0.8, coming, said)


def config() -> Facts:
    settings = Settings(
        model="anthropic/claude-sonnet-4-5",
        thinking="medium",
        limits=LimitSettings(max_turns=60, budget=2.0),
        origins={
            "model": FILE,
            "thinking": "CODEAGENT_THINKING",
            "limits.budget": FILE,
            "limits.max_turns": ".codeagent/config.toml",
        },
    )
    return settings_facts(every_setting(settings, all_extensions().sections), FILE)


def usage() -> Facts:
    requests = [
        SpentRequest(
            origin="",
            seq=day,
            at=NOON - 86_400 * (day % 9),
            model=model,
            input_tokens=tokens_in * (1 + day * day % 7),
            output_tokens=tokens_out,
            cache_read_tokens=tokens_in // 2,
            nanodollars=None if cost is None else cost * (1 + day * day % 7),
        )
        for day in range(20)
        for model, (tokens_in, tokens_out, cost) in SPENT.items()
    ]
    return usage_facts(totals([SpentSession("/home/ada/acme-api", tuple(requests))], "day"), 9)


async def picture(facts: Facts) -> str:
    with tempfile.TemporaryDirectory() as folder:
        app = ReplayApp(asks_about_effects().events, Path(folder), now=NOON)
        async with app.run_test(size=SIZE) as pilot:
            await settled(pilot)
            await app.push_screen(FactsPage(facts))
            await pilot.pause()
            await pilot.press("down")
            await pilot.pause()
            return app.export_screenshot(title="codeagent")


if __name__ == "__main__":
    made: tuple[Callable[[], Facts], ...] = (context, config, usage)
    for make in made:
        path = ROOT / f"docs/images/{make.__name__}.svg"
        path.write_text(asyncio.run(picture(make())), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
