"""The page of `/usage`."""

import asyncio

from codeagent.commands.arguments import open_store
from codeagent.core.sanitize import one_line
from codeagent.extensions.usage.requests import spent
from codeagent.extensions.usage.totals import WAYS, By, Totals, since_days, totals
from codeagent.tui.facts import Caption, Fact, FactRow, Facts
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.slash import show_facts
from codeagent.tui.transcript.spelling import counted

_DAYS = 30
_YEAR = 365


async def usage(chat: ChatScreen, argument: str) -> None:
    """Handle `/usage [day|model|repository] [days]`."""
    words = argument.split()
    by: By = next((way for way in WAYS if way in words), "day")
    numbers = [
        word for word in words if word.isascii() and word.isdigit() and 0 < int(word) < 10_000
    ]
    if len(words) > len(numbers[:1]) + (by in words):
        chat.tell(
            f"/usage takes {', '.join(WAYS)} and a number of days, not '{one_line(argument, 40)}'"
        )
        return
    days = int(numbers[0]) if numbers else _DAYS

    def read() -> Totals:
        store = open_store()
        return totals(spent(store, store.ids(), since_days(days, chat.clock())), by)

    await show_facts(chat, usage_facts(await asyncio.to_thread(read), days))


def usage_facts(found: Totals, days: int) -> Facts:
    after = WAYS[(WAYS.index(found.by) + 1) % len(WAYS)]
    does, command = f"shows it by {after}", f"/usage {after} {days}"
    rows: list[FactRow] = [Caption((found.by, "cost", "tokens", "requests"))]
    for name, total in (*found.groups.items(), ("total", found.whole)):
        tokens = total.input_tokens + total.output_tokens
        about = (
            f"{total.input_tokens:,} tokens in, {total.cache_read_tokens:,} of them from the cache, "
            f"{total.output_tokens:,} out"
        )
        if total.without_price:
            about += f"; no price is known for {counted(total.without_price, 'request')}"
        bar = 0.0 if total is found.whole else found.share(total)
        cells = (name, total.cost, f"{tokens:,}", f"{total.requests:,}")
        rows.append(Fact(cells=cells, about=about, does=does, command=command, bar=bar))
    if not found.groups:
        none = f"Nothing was spent in {counted(days, 'day')}"
        does, command = "shows what this session cost", "/cost"
        if days < _YEAR:
            does, command = "looks at the last year", f"/usage {found.by} {_YEAR}"
        rows = [Fact(cells=(none,), does=does, command=command)]
    return Facts("Usage", rows, f"the last {counted(days, 'day')}")
