"""Esc pauses whatever goes on, and Esc again stops it: on a terminal, with a model that takes its
time."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.product import Product, Turn, bash, calls, of, running, say
from tests.e2e.screens import ask, long_answer, open_screen
from tests.pty_screen import PtyScreen

SLEEP = "sleep 4321"
_SLOW = "word " * 2000

PHASES: dict[str, tuple[Turn, Callable[[PtyScreen], bool]]] = {
    "thinking": (
        {"text": "x", "reasoning": _SLOW, "delay_ms": 20},
        lambda screen: " thinking " in screen.screen()[-1],
    ),
    "answering": (long_answer(delay_ms=20), lambda screen: "paragraph 3 " in screen.text()),
    "calling": (
        calls(bash(SLEEP)),
        lambda screen: any(SLEEP.split()[1].encode() in line for line in running()),
    ),
    "retrying": (
        {"text": "", "error": {"status": 529, "retry_after": 100}},
        lambda screen: "attempt 2 of 6 in" in screen.screen()[-1],
    ),
    "waiting for an answer": (
        calls(("ask_user", {"question": "Which one?", "options": ["this", "that"]})),
        lambda screen: "waiting for you" in screen.screen()[-1],
    ),
}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Product:
    workspace, home = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("home")
    return Product(workspace, home)


@pytest.fixture(scope="module")
def shared(product: Product) -> Iterator[PtyScreen]:
    """One screen for all phases; each brings its own model."""
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[rules]\nallow = ["bash({SLEEP})"]\n')
    with open_screen(product, "--model", product.script(say("unused")), size=(120, 40)) as screen:
        yield screen
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
    assert product.call("sessions", "check", "--last").code == 0


@pytest.mark.parametrize("phase", PHASES)
def test_esc_pauses_and_esc_again_stops(product: Product, shared: PtyScreen, phase: str) -> None:
    turn, reached = PHASES[phase]
    begin(product, shared, turn)
    shared.wait_for(lambda: reached(shared))
    before = len(of(product.log(), "run.finished"))
    shared.send("esc")
    shared.wait_for("Esc again stops now")
    assert "pausing after this" in shared.screen()[-1]
    shared.send("esc")
    product.wait_for(lambda log: len(of(log, "run.finished")) > before)
    assert of(product.log(), "run.finished")[-1]["reason"] == "interrupted"
    shared.wait_for(lambda: " ready" in shared.screen()[-1])


def begin(product: Product, screen: PtyScreen, *turns: Turn) -> None:
    model = product.script(*turns)
    screen.send(f"/model {model}", "enter")
    screen.wait_for(f"model: {model[:20]}")
    ask(screen)


def test_esc_stops_a_run_that_paused(product: Product, shared: PtyScreen) -> None:
    shared.send("/step on", "enter")
    shared.wait_for("pausing before every batch")
    begin(product, shared, calls(("list", {})))
    shared.wait_for("paused before batch 1")
    before = len(of(product.log(), "run.finished"))
    shared.send("esc")
    product.wait_for(lambda log: len(of(log, "run.finished")) > before)
    assert of(product.log(), "run.finished")[-1]["reason"] == "interrupted"
    shared.wait_for(lambda: " ready" in shared.screen()[-1])
    shared.send("/step off", "enter")
    shared.wait_for("no longer pausing")


def test_esc_esc_stops_a_compaction_and_another_one_shows_its_summary_first(
    product: Product, shared: PtyScreen
) -> None:
    slow = {"text": "x", "reasoning": _SLOW, "delay_ms": 20, "summary": True}
    summary = {"text": "# Done\n- it was found", "summary": True}
    begin(product, shared, say("found it. " * 300), slow, summary, say("all of it"))
    product.wait_for(lambda log: of(log, "run.finished")[-1]["reason"] == "done")
    shared.send("/compact cover the ports", "enter")
    shared.wait_for(lambda: " compacting " in shared.screen()[-1])
    shared.send("esc")
    shared.wait_for("Esc again stops now")
    shared.send("esc")
    shared.wait_for("not compacted: it was stopped")
    shared.wait_for(lambda: " ready" in shared.screen()[-1])
    assert of(product.log(), "context.compacted") == []
    shared.send("/compact", "enter")
    shared.wait_for("Summary to replace the older part")
    shared.send("/compact use", "enter")
    shared.wait_for("replaced by the summary")
    assert of(product.log(), "context.compacted")[-1]["summary"] == "# Done\n- it was found"
    ask(shared, "and then?")
    shared.wait_for("all of it")
