"""Where no conversation can begin, one screen says what is missing and offers the ways on."""

import pytest
from textual import events

from codeagent.core.errors import ConfigError
from codeagent.tui.launcher import LaunchOptions, Missing, ModelRow
from codeagent.tui.pages.opening import FirstRun
from codeagent.tui.parts.guard import Guard
from tests.table import for_each
from tests.tui.pages.stand_in import MANNERS, Clock, StandIn

SERVER = ModelRow(
    "ollama/qwen3:8b", "answers on http://127.0.0.1:11434", True, "http://127.0.0.1:11434"
)
MISSING = Missing(
    "key",
    "anthropic/claude needs a key: ANTHROPIC_API_KEY is not set",
    "ANTHROPIC_API_KEY",
    (SERVER,),
)
OPTIONS = LaunchOptions(model="m")
SECRET = "sk-ant-" + "q7Zp" * 8


class Drawer:
    """Keeps keys, or refuses to."""

    def __init__(self, refusal: str = "") -> None:
        self.kept: dict[str, str] = {}
        self._refusal = refusal

    async def keep(self, variable: str, value: str) -> str:
        if self._refusal:
            raise ConfigError(self._refusal.replace("KEY", value))
        self.kept[variable] = value
        return "the keyring"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (20, 5)])
async def test_it_says_what_is_missing_and_the_demo_is_one_key_away(size: tuple[int, int]) -> None:
    app, clock = StandIn(), Clock()
    async with app.run_test(size=size) as pilot:
        page = FirstRun(MISSING, Drawer().keep, options=OPTIONS)
        page.guard = Guard(clock)
        app.push_screen(page, app.given.append)
        await pilot.pause()
        if size != (20, 5):
            assert MISSING.text in app.shown
            assert [
                row
                for row in ("Paste an API key", SERVER.name, "Another server", "Look around")
                if row not in app.shown
            ] == []
        await pilot.press("d")
        assert app.given == []
        clock.now = 1.0
        await pilot.press("d")
        await pilot.pause()
        assert app.given == [LaunchOptions(model="demo")]


async def test_a_key_is_shown_as_dots_and_stored_under_its_variable() -> None:
    app, drawer = StandIn(), Drawer()
    async with app.run_test() as pilot:
        app.push_screen(FirstRun(MISSING, drawer.keep, options=OPTIONS), app.given.append)
        await pilot.press("enter", *"sk")
        app.post_message(events.Paste(SECRET[2:]))
        await pilot.pause()
        assert "••••" in app.shown
        assert "q7Zp" not in app.shown
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert drawer.kept == {"ANTHROPIC_API_KEY": SECRET}
        assert app.given == [OPTIONS]


async def test_a_key_of_a_server_of_ones_own_may_be_short_and_is_stored_under_its_address() -> None:
    app, drawer = StandIn(), Drawer()
    missing = Missing("key", "127.0.0.1:8080 wants a key", "http://127.0.0.1:8080")
    async with app.run_test() as pilot:
        app.push_screen(FirstRun(missing, drawer.keep, options=OPTIONS), app.given.append)
        await pilot.press("enter", *"abc", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
    assert (drawer.kept, app.given) == ({"http://127.0.0.1:8080": "abc"}, [OPTIONS])


async def test_within_a_conversation_only_the_key_is_asked_for_and_esc_leaves_at_once() -> None:
    app = StandIn()
    missing = Missing("key", "Paste the API key for this server", "http://127.0.0.1:8080")
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(FirstRun(missing, Drawer().keep), app.given.append)
        await pilot.press("up", *"ab")
        assert "••" in app.shown
        assert "Choose how to start" not in app.shown and "…" not in app.shown
        await pilot.press("escape")
        await pilot.pause()
    assert app.given == [None]


async def test_a_key_can_be_pasted_at_once_and_its_provider_is_known_by_how_it_begins() -> None:
    app, drawer = StandIn(), Drawer()
    async with app.run_test() as pilot:
        app.push_screen(
            FirstRun(Missing("model", "no model is chosen yet"), drawer.keep, options=OPTIONS),
            app.given.append,
        )
        await pilot.pause()
        app.post_message(events.Paste(f"  sk-or-{SECRET}\n"))
        await pilot.pause()
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        assert drawer.kept == {"OPENROUTER_API_KEY": f"sk-or-{SECRET}"}


@for_each(
    ("typed", "said"),
    [
        ("", "nothing was pasted yet"),
        ("abc", "that is not a key: it is too short"),
        ("two words", "that is not a key: it has characters that keys do not have"),
        ("zz-unknown-1234", "no known provider has keys that begin like this"),
    ],
)
async def test_what_is_no_key_is_not_stored_and_not_repeated(typed: str, said: str) -> None:
    app, drawer = StandIn(), Drawer()
    async with app.run_test(size=(120, 40)) as pilot:
        app.push_screen(
            FirstRun(Missing("model", "no model is chosen yet"), drawer.keep, options=OPTIONS),
            app.given.append,
        )
        await pilot.press("enter")
        app.post_message(events.Paste(typed))
        await pilot.press("enter")
        await pilot.pause()
        assert said in app.shown
        assert not typed or typed not in app.shown
        assert (drawer.kept, app.given) == ({}, [])


async def test_a_refusal_to_store_is_said_without_the_key_in_it() -> None:
    app, drawer = StandIn(), Drawer("the keyring is locked: KEY was not stored")
    async with app.run_test() as pilot:
        app.push_screen(FirstRun(MISSING, drawer.keep, options=OPTIONS), app.given.append)
        app.post_message(events.Paste(SECRET))
        await pilot.pause()
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "the keyring is locked: … was not stored" in app.shown
        assert app.given == []


@for_each(
    ("typed", "address"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("localhost:8080/v1", "http://localhost:8080/v1"),
        ("[::1]:1", "http://[::1]:1"),
        ("127.0.0.1.evil.example:80", None),
        ("localhost@evil.example", None),
        ("gateway.example/v1", None),
    ],
)
async def test_only_an_address_on_this_machine_may_lack_its_scheme(
    typed: str, address: str | None
) -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(FirstRun(MISSING, Drawer().keep, options=OPTIONS), app.given.append)
        await pilot.press("down", "down", "enter")
        app.post_message(events.Paste(typed))
        await pilot.press("enter")
        await pilot.pause()
        assert [options.api_base for options in app.given] == ([] if address is None else [address])


async def test_a_server_that_answered_is_one_enter_away_and_another_is_an_address() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(FirstRun(MISSING, Drawer().keep, options=OPTIONS), app.given.append)
        await pilot.press("down", "enter")
        await pilot.pause()
        app.push_screen(FirstRun(MISSING, Drawer().keep, options=OPTIONS), app.given.append)
        await pilot.press("down", "down", "enter", *"ftp", "enter")
        await pilot.pause()
        assert "not an address" in app.shown
        await pilot.press("ctrl+u")
        app.post_message(events.Paste("http://127.0.0.1:8000\n"))
        await pilot.press("enter")
        await pilot.pause()
        assert app.given == [
            LaunchOptions(model=SERVER.name, api_base=SERVER.api_base),
            LaunchOptions(model="m", api_base="http://127.0.0.1:8000"),
        ]


async def test_esc_goes_back_to_the_list_and_then_leaves() -> None:
    app = StandIn()
    async with app.run_test() as pilot:
        app.push_screen(FirstRun(MISSING, Drawer().keep, options=OPTIONS), app.given.append)
        await pilot.press("enter", *"sk-ant-abc", "escape", "enter")
        await pilot.pause()
        assert "•" not in app.shown
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.given == [None]


async def test_text_of_others_on_the_first_screen_is_shown_never_obeyed() -> None:
    app = StandIn()
    row = ModelRow(MANNERS, MANNERS, True)
    async with app.run_test() as pilot:
        app.push_screen(
            FirstRun(Missing("error", MANNERS, "", (row,)), Drawer().keep, options=OPTIONS)
        )
        await pilot.pause()
        assert "\x1b" not in app.shown
        assert "[bold]x[/]" in app.shown


async def test_enter_takes_the_first_model_of_a_server_that_was_named() -> None:
    app, server = (
        StandIn(),
        ModelRow("openai/qwen", "at http://127.0.0.1:9/v1", True, "http://127.0.0.1:9/v1"),
    )
    missing = Missing("model", "Choose a model of 127.0.0.1:9", servers=(server,))
    named = LaunchOptions(api_base="http://127.0.0.1:9")
    async with app.run_test() as pilot:
        app.push_screen(FirstRun(missing, Drawer().keep, options=named), app.given.append)
        await pilot.press("enter")
        await pilot.pause()
        assert app.given == [LaunchOptions(model="openai/qwen", api_base="http://127.0.0.1:9/v1")]
