"""Every listing prints JSON for programs, and the words of the screen for users."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.product import Product, calls, say

STYLE = re.compile(r"\x1b\[[0-9;]*m")
LISTINGS = (
    ["sessions", "list"],
    ["sessions", "search", "hello"],
    ["stats", "--last"],
    ["tools", "list"],
    ["tools", "sets"],
    ["extensions", "list"],
    ["extensions", "show", "mcp"],
    ["mcp", "list"],
    ["recipes", "list"],
    ["config", "show"],
    ["config", "path", "--all"],
)


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    product = Product(tmp_path / "work", tmp_path / "home")
    product.run(product.script(calls(("read", {"path": "no"})), say("Hello **you**.")))
    return product


def test_every_listing_is_json_for_programs_also_with_colours(product: Product) -> None:
    for listing in LISTINGS:
        for more in ({}, {"FORCE_COLOR": "1"}):
            done = product.call(*listing, "--json", env=product.environment | more)
            assert done.code == 0 and json.loads(done.out) is not None, listing


def test_a_user_reads_the_words_of_the_screen(product: Product) -> None:
    def shown(*arguments: str) -> str:
        done = product.call(*arguments, env=product.environment | {"FORCE_COLOR": "1"})
        return STYLE.sub("", done.out + done.err)

    tools = shown("tools", "list")
    assert re.search(r"^bash +ask +builtin", tools, re.M) and "prompt" not in tools.split("\n")[1]
    assert "approval: ask" in shown("tools", "show", "bash")
    assert re.search(r"^20\S+ +just now +go$", shown("sessions", "list"), re.M)
    assert "\nHello you.\n" in shown("sessions", "show", "--last")
    assert "2 turns · 1 call\n" in shown("sessions", "show", "--last")
    assert re.search(r"^read +1 +1 ", shown("stats", "--last"), re.M)
    assert re.search(r'^mode +"ask" +default$', shown("config", "show"), re.M)


def test_an_error_is_followed_by_where_to_look_unless_it_says_so(product: Product) -> None:
    for arguments, told in (
        (["recipes", "show", "zzz"], "– see codeagent recipes --help\n"),
        (["sessions", "show", "zzz"], "see: codeagent sessions list\n"),
        (["sessions", "search", "zzz"], "a match contains all of them\n"),
    ):
        done = product.call(*arguments, env=product.environment | {"FORCE_COLOR": "1"})
        assert done.code in (1, 2) and STYLE.sub("", done.err).endswith(told)
        assert product.call(*arguments).err.count("\n") == 1
