"""Sets the window's title, and notifies the user when the agent waits or is done while they look
elsewhere."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from codeagent.core.attention import Attention, Follower, Terminal
from codeagent.core.extension import Sections
from codeagent.core.sanitize import plain_line
from codeagent.extensions.notify.settings import Channel, NotifySettings

_LONGEST = 100
"""Characters of a notification's text."""
_WORDS = {"idle": "", "waiting": "waiting for you"}
"""What is said of a state in other words than its name."""
_TOLD = ("waiting", "done", "failed")
"""The states that cause a notification; any other stop is the user's own."""
_TERM_PROGRAMS: Mapping[str, Channel] = {
    "ghostty": "osc777",
    "WezTerm": "osc777",
    "WarpTerminal": "osc777",
    "iTerm.app": "osc9",
    "Apple_Terminal": "bell",
}
_VARIABLES: Mapping[str, Channel] = {
    "KITTY_WINDOW_ID": "osc99",
    "WEZTERM_PANE": "osc777",
    "GHOSTTY_RESOURCES_DIR": "osc777",
    "VTE_VERSION": "osc777",
    "ITERM_SESSION_ID": "osc9",
}
"""Set by the terminal, and still set in a tmux that was started in it."""
_TERMS: Mapping[str, Channel] = {
    "xterm-kitty": "osc99",
    "xterm-ghostty": "osc777",
    "foot": "osc777",
    "rxvt-unicode": "osc777",
    "linux": "bell",
    "screen": "bell",
}


def channel(environment: Mapping[str, str]) -> Channel:
    """Return the kind of sequence that the terminal understands; OSC 9 for an unknown one, because
    terminals that do not support it ignore it."""
    if (known := _TERM_PROGRAMS.get(environment.get("TERM_PROGRAM", ""))) is not None:
        return known
    for name, by in _VARIABLES.items():
        if environment.get(name):
            return by
    if "TMUX" in environment:
        return "osc9"
    term = environment.get("TERM", "")
    return next((by for name, by in _TERMS.items() if f"{term}-".startswith(f"{name}-")), "osc9")


def sequence(by: Channel, title: str, text: str, *, tmux: bool) -> str:
    """Return the sequence for a notification; a tmux passes it through if it is allowed to."""
    own = f"i=codeagent-{os.getpid()}"
    asked = {
        "osc9": f"\x1b]9;{title}: {text}\x07",
        "osc777": f"\x1b]777;notify;{title.replace(';', ',')};{text}\x07",
        "osc99": f"\x1b]99;{own}:d=0;{title}\x1b\\\x1b]99;{own}:p=body;{text}\x1b\\",
        "bell": "\x07",
        "off": "",
    }[by]
    if not tmux or by in ("bell", "off"):
        return asked
    doubled = asked.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"


def follow(settings: Sections, workspace: Path, terminal: Terminal) -> Follower:
    """Return the follower, which is called whenever the agent's state changes."""
    chosen = settings.section("notify", NotifySettings)
    by = channel(os.environ) if chosen.by == "auto" else chosen.by
    last = Attention()
    running: asyncio.Task[None] | None = None

    def told(now: Attention) -> None:
        nonlocal last, running
        before, last = last, now
        if chosen.title:
            words = (_WORDS.get(now.state, now.state), now.place, "codeagent")
            terminal.title(" · ".join(filter(None, words)))
        new = now.state != before.state or set(now.questions) - set(before.questions)
        if by == "off" or terminal.in_front or now.state not in _TOLD or not new:
            return
        title = plain_line(f"codeagent · {now.place}", _LONGEST)
        said = ": ".join(filter(None, (_WORDS.get(now.state, now.state), now.about)))
        text = plain_line(said[:1].upper() + said[1:], _LONGEST)
        if not chosen.command:
            terminal.send(sequence(by, title, text, tmux="TMUX" in os.environ))
        elif running is None or running.done():
            argv = [{"{title}": title, "{text}": text}.get(word, word) for word in chosen.command]
            from codeagent.extensions.notify.command import run  # few users have a command

            running = asyncio.create_task(run(argv, workspace, terminal))

    return told
