"""A small app on the same guard as the real one: `python sample_app.py STATE`; what is typed names
what happens."""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.widgets import Input, Static

from codeagent.core.redact import Redactor
from codeagent.tui.guarded import GuardedApp, run_guarded


class SampleApp(GuardedApp):
    """Enter does what the typed word says."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "quit", priority=True),
        Binding("ctrl+z", "suspend_process", priority=True),
    ]

    def compose(self) -> ComposeResult:
        yield Static("ready", id="said", markup=False)
        yield Input()

    @property
    def kept_session(self) -> str:
        return "20260102-abcdef"

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self.app_resume_signal.subscribe(
            self, lambda _: self.query_one("#said", Static).update("resumed")
        )

    def on_input_submitted(self, event: Input.Submitted) -> None:
        match event.value:
            case "raise":
                self.fail()
            case "worker":
                self.run_worker(self.work())
            case "thread":
                self.run_worker(self.fail, thread=True)
            case "exit":
                raise SystemExit(7)
            case "code":
                self.exit(return_code=5)
            case "hang":
                self.query_one("#said", Static).update("hanging")
                self.call_after_refresh(threading.Event().wait)
            case "stream":
                self.run_worker(self.stream())
            case "lend":
                with self.suspend():
                    os.system("echo lent to a shell; read answer; echo it said $answer")
            case other:
                self.query_one("#said", Static).update(f"said {other!r}")
        self.query_one(Input).value = ""

    def on_key(self, event: Key) -> None:
        if event.key == "escape":
            self.query_one("#said", Static).update("escaped")

    def fail(self) -> None:
        password = "hunter2-in-a-local"
        raise ValueError(
            f"the key is {os.environ['SAMPLE_API_KEY']} and not {len(password)} letters"
        )

    async def work(self) -> None:
        await asyncio.sleep(0)
        self.fail()

    async def stream(self) -> None:
        for number in range(100_000):
            self.query_one("#said", Static).update(f"line {number}, " * 200)
            await asyncio.sleep(0.002)


if __name__ == "__main__":
    sys.exit(run_guarded(SampleApp(), Path(sys.argv[1]), Redactor(os.environ).clean))
