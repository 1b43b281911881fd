"""What Textual costs by itself: `python -m benchmarks.screen_floor input | stream`."""

import asyncio
import sys

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Input, Markdown

from benchmarks.screen_text import answer_of

TOKENS_PER_SECOND = 100


class Bare(App[None]):
    """One input, and above it a Markdown that a stream is written to."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Input"

    def __init__(self, *, streams: bool) -> None:
        super().__init__()
        self._streams = streams

    def compose(self) -> ComposeResult:
        if self._streams:
            with VerticalScroll() as scroll:
                yield Markdown()
            scroll.anchor()
        yield Input()

    def on_input_submitted(self) -> None:
        self.run_worker(self._stream())

    async def _stream(self) -> None:
        stream = Markdown.get_stream(self.query_one(Markdown))
        for token in answer_of(3000).split(" "):
            await stream.write(f"{token} ")
            await asyncio.sleep(1 / TOKENS_PER_SECOND)
        await stream.stop()


if __name__ == "__main__":
    Bare(streams=sys.argv[1] == "stream").run()
