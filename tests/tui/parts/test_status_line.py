from textual.app import App, ComposeResult

from codeagent.core.pulse import Pulse
from codeagent.tui.parts.status import Header, StatusLine
from codeagent.tui.state import StatusBoard, UiState
from codeagent.tui.status import Status
from codeagent.tui.transcript.blocks import Remark


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class StatusApp(App[None]):
    def __init__(self, board: StatusBoard, clock: Clock, pulse: Pulse | None = None) -> None:
        super().__init__()
        self.board = board
        self.state = UiState(status=board, pulse=pulse or Pulse())
        self.clock = clock

    def compose(self) -> ComposeResult:
        yield Header(self.board)
        yield StatusLine(self.state, clock=self.clock)

    @property
    def line(self) -> StatusLine:
        return self.query_one(StatusLine)

    def text(self) -> str:
        return self.line.render_line(0).text.strip()


async def test_header_and_status_line_share_one_board() -> None:
    app = StatusApp(StatusBoard(), Clock())
    async with app.run_test(size=(80, 10)) as pilot:
        app.board.set(phase="idle", workspace="acme-api", sandbox="docker")
        await pilot.pause()
        assert app.text() == "ready · ? keys"
        assert "acme-api" in app.query_one(Header).render_line(0).text


async def test_no_timer_runs_while_nothing_changes() -> None:
    app = StatusApp(StatusBoard(Status().changed(phase="working", since=100.0)), Clock())
    async with app.run_test(size=(80, 10)):
        assert app.line.ticking
        for phase, halt in (
            ("idle", ""),
            ("working", "paused"),
            ("starting", ""),
            ("waiting", "pausing"),
        ):
            app.board.set(phase=phase, halt=halt)
            assert not app.line.ticking, (phase, halt)


async def test_the_spinner_turns_only_while_the_agent_is_busy() -> None:
    app = StatusApp(StatusBoard(Status().changed(phase="working", since=100.0)), Clock())
    async with app.run_test(size=(80, 10)):
        first = app.text()
        app.clock.now += 0.25
        app.line.tick()
        second = app.text()
        assert first[0] != second[0]
        assert first[2:] == second[2:]
        app.board.set(phase="idle")
        assert app.text().startswith("ready")


async def test_durations_count_on() -> None:
    app = StatusApp(StatusBoard(Status().changed(phase="working", since=100.0)), Clock())
    async with app.run_test(size=(80, 10)):
        app.clock.now = 114.0
        app.line.tick()
        assert "working 14 s" in app.text()


async def test_twenty_by_five_shows_the_phase() -> None:
    app = StatusApp(StatusBoard(Status().changed(phase="working", halt="paused", batch=3)), Clock())
    async with app.run_test(size=(20, 5)):
        assert app.text() == "paused before ba…"


async def test_the_reason_for_a_retry_leaves_room_for_the_key_that_stops_it() -> None:
    reason = (
        "openai/gpt-5: too many requests: Rate limit reached for requests per min: Limit 3, Used 3"
    )
    for width, words in (
        (80, "attempt 2 in 1 min 59 s: openai/gpt-5: too many requests: Rate l…"),
        (40, "attempt 2 in 1 min 59 s"),
    ):
        pulse = Pulse("retrying", attempt=2, retry_at=219.0)
        app = StatusApp(
            StatusBoard(Status().changed(phase="retrying", retry_reason=reason)), Clock(), pulse
        )
        async with app.run_test(size=(width, 5)):
            assert app.text().endswith(f" {words} · esc pause")


async def test_what_does_not_fit_the_row_is_in_the_transcript_whole_and_once() -> None:
    app = StatusApp(StatusBoard(Status().changed(phase="idle")), Clock())
    async with app.run_test(size=(40, 10)):
        long = "the provider is overloaded: " + "so it says, " * 5
        app.board.set(notice="short")
        app.board.set(notice=long)
        app.board.set(notice=long, batch=1)
        app.board.set(notice="", phase="retrying", retry_reason=long)
        said = [block.text for block in app.state.document.blocks if isinstance(block, Remark)]
        assert said == [long]
