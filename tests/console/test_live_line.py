"""The line on a terminal without a screen."""

from codeagent.console.live_line import LiveLine
from codeagent.core.events import KnownEvent, ToolFinished, ToolStarted, TurnFinished
from codeagent.core.messages import Usage
from tests.tui.scripts import START, Recording


class Terminal:
    """Shows what is left of the line."""

    def __init__(self) -> None:
        self.line = ""
        self.drawn = 0

    def draw(self, text: str) -> None:
        self.line = text.rpartition("\r\x1b[K")[2]
        self.drawn += 1


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


def live(columns: int = 80) -> tuple[LiveLine, Terminal, Clock]:
    terminal, clock = Terminal(), Clock()
    return LiveLine(terminal.draw, lambda: columns, clock), terminal, clock


def take(line: LiveLine, *events: KnownEvent) -> None:
    for event in events:
        line.take(event)


async def test_silence_before_an_answer_is_said_as_waiting_for_the_model() -> None:
    line, terminal, clock = live()
    take(line, *Recording().run("hi").events)
    clock.now += 27
    line.redraw()
    assert terminal.line == "waiting for claude-sonnet-4-5 · 27 s"
    line.close()
    assert terminal.line == ""


async def test_a_call_that_runs_is_named_and_its_end_removes_the_line() -> None:
    line, terminal, clock = live()
    recording = Recording().run("hi").answer("", thinking="so")
    recording.add(ToolStarted, call_id="c1", name="bash", target="make test", arguments={})
    take(line, *recording.events)
    clock.now += 65
    line.redraw()
    assert terminal.line == "claude-sonnet-4-5 · bash make test · 1 min 5 s"
    recording.add(ToolFinished, call_id="c1", name="bash", is_error=False, duration_ms=1)
    take(line, recording.events[-1])
    line.redraw()
    assert terminal.line == ""
    line.close()


async def test_a_piece_of_a_stream_is_not_drawn_by_itself() -> None:
    line, terminal, _ = live()
    take(line, *Recording().run("hi").events)
    drawn = terminal.drawn
    take(line, *Recording().stream("a").stream("b").events)
    assert terminal.drawn == drawn
    line.close()


async def test_the_line_never_wraps_and_nothing_in_it_acts_on_the_terminal() -> None:
    line, terminal, _ = live(30)
    recording = Recording().run("hi").answer("", thinking="so")
    recording.add(
        ToolStarted, call_id="c1", name="bash", target="\x1b[2J漢字漢字漢字漢字", arguments={}
    )
    take(line, *recording.events)
    line.redraw()
    assert terminal.line == "bash \\x1b[2J漢字漢字漢 · 0 s"
    line.close()


async def test_the_cost_of_the_run_is_beside_it_if_there_is_room() -> None:
    for columns, expected in (
        (80, "claude-sonnet-4-5 · bash make test · 3 s · 18.2k tokens · $0.041"),
        (50, "bash make test · 3 s · 18.2k tokens · $0.041"),
        (30, "bash make test · 3 s"),
        (16, "bash mak… · 3 s"),
        (6, "… · 3"),
    ):
        line, terminal, clock = live(columns)
        recording = Recording().run("hi").answer("", thinking="so")
        used = Usage(input_tokens=18_000, output_tokens=200, cost_usd=0.0412)
        recording.add(TurnFinished, turn=1, stop="tool_calls", usage=used)
        recording.add(ToolStarted, call_id="c1", name="bash", target="make test", arguments={})
        take(line, *recording.events)
        clock.now += 3
        line.redraw()
        assert terminal.line == expected
        line.close()


async def test_lines_above_are_removed_with_it_also_if_the_terminal_became_narrower() -> None:
    drawn: list[str] = []
    columns = [40]
    line = LiveLine(
        drawn.append, lambda: columns[0], Clock(), growing=lambda: ["x" * 39, "\x1b[1my\x1b[0m"]
    )
    take(line, *Recording().run("hi").events)
    shown = ["x" * 39, "\x1b[1my\x1b[0m", "waiting for claude-sonnet-4-5 · 0 s"]
    assert drawn == ["\r\x1b[K" + "\n".join(shown)]
    columns[0] = 20
    line.close()
    assert drawn[-1] == "\r\x1b[4A\x1b[J", "two rows each for the longer lines, one for the other"
