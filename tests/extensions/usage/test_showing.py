"""`codeagent stats --by`, and the page `/usage`."""

import json
import os
import re
import time
from itertools import product as product_of
from pathlib import Path
from unittest.mock import patch

from rich.cells import cell_len

from codeagent.core.redact import Redactor
from codeagent.extensions.usage.page import usage_facts
from codeagent.extensions.usage.requests import spent
from codeagent.extensions.usage.totals import WAYS, totals
from codeagent.session.store import SessionStore
from codeagent.tui.facts import Fact
from codeagent.tui.pages.facts import FactsPage
from tests.e2e.product import Product
from tests.extensions.usage.test_totals import begun, kept, turn
from tests.tui.replay import ReplayApp, enter, settled, until

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def product(folder: Path) -> tuple[Product, SessionStore]:
    (folder / "project").mkdir()
    store = SessionStore(folder / "state/codeagent", Redactor({}))
    kept(store, begun("b", str(folder / "project")), turn(0.25), turn(0.5), at=time.time())
    kept(store, begun("a\x1b[2J", "/elsewhere"), turn(0.125, 40), turn(None), at=time.time())
    return Product(folder / "project", folder), store


def test_the_totals_are_printed_with_their_sum(tmp_path: Path) -> None:
    found, _ = product(tmp_path)
    done = found.call("stats", "--by", "model")
    head, *rows = done.out.splitlines()
    assert head.split() == ["model", "cost", "tokens", "in", "tokens", "out", "requests"]
    assert [row.split()[1] for row in rows] == ["$0.7500", "≥$0.1250", "≥$0.8750"]
    assert "█" * 20 in rows[0] and "\x1b" not in done.out
    assert found.call("stats", "--days", "1").out.split()[0] == "day"


def test_on_a_terminal_the_totals_fit_and_every_figure_is_there(tmp_path: Path) -> None:
    found, _ = product(tmp_path)
    for width, by in product_of((40, 60, 80, 200), WAYS):
        env = found.environment | {"FORCE_COLOR": "1", "COLUMNS": str(width)}
        out = found.call("stats", "--by", by, env=env).out
        lines = [STYLE.sub("", line) for line in out.splitlines()]
        assert width == 40 or max(map(cell_len, lines)) <= width, lines
        assert lines[-1].split()[-4:] == ["≥$0.8750", "70", "0", "4"], lines


def test_json_has_every_figure_exactly(tmp_path: Path) -> None:
    found, _ = product(tmp_path)
    told = json.loads(found.call("stats", "--by", "repository", "--json").out)
    assert (told["total"]["nanodollars"], told["total"]["cost_usd"]) == (875_000_000, 0.875)
    assert sum(group["nanodollars"] for group in told["groups"]) == 875_000_000
    assert [group["name"] for group in told["groups"]] == [str(tmp_path / "project"), "/elsewhere"]
    here = json.loads(found.call("stats", "--here", "--by", "model", "--json").out)
    assert [group["name"] for group in here["groups"]] == ["b"]


def test_without_these_options_stats_is_about_one_session(tmp_path: Path) -> None:
    found, _ = product(tmp_path)
    assert found.call("stats").out.startswith("session   20")


def test_a_row_leads_to_the_next_way_to_divide_it(tmp_path: Path) -> None:
    _, store = product(tmp_path)
    facts = usage_facts(totals(spent(store, store.ids()), "model"), 7)
    rows = [row for row in facts.rows if isinstance(row, Fact)]
    assert [row.cells[0] for row in rows] == ["b", "a\x1b[2J", "total"]
    assert [row.bar for row in rows] == [1.0, 1 / 6, 0.0]
    assert {row.command for row in rows} == {"/usage repository 7"}
    assert "no price is known for 1 request" in rows[1].about


async def test_the_page_is_opened_by_its_command_also_when_nothing_was_spent(
    tmp_path: Path,
) -> None:
    app = ReplayApp([], tmp_path, now=time.time())
    with patch.dict(os.environ, {"XDG_STATE_HOME": str(tmp_path)}):
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            await enter(pilot, "/usage model 3")
            await until(pilot, lambda: isinstance(app.screen, FactsPage))
            assert isinstance(app.screen, FactsPage)
            assert app.screen.list.facts[0].command == "/usage model 365"
            await pilot.press("q")
            await enter(pilot, "/usage weeks")
            await until(pilot, lambda: "not 'weeks'" in app.chat.state.status.now.screen.notice)
