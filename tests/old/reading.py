"""What the product makes of a stored machine: a workspace, and settings and sessions beside it.

It uses the command line, two wires, and what the tests themselves have, so that the same code reads
a machine with the version that made it and with this one.
"""

import asyncio
import json
import os
import re
import secrets
import shutil
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.style import Style

from codeagent.session.recording import read_recording
from codeagent.tui.keymap import load_keymap
from codeagent.tui.reduce import Reducer
from codeagent.tui.state import UiState
from codeagent.tui.themes import load_theme
from codeagent.tui.transcript.render import printed
from tests.e2e.product import Product
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server

try:
    from codeagent.config.extensions import all_extensions
except ImportError:  # a version in which the screen knows all agents
    _CARDS: dict[str, Any] = {}
else:
    _CARDS = {
        "cards": lambda: [each.screen.cards for each in all_extensions().on if each.screen.cards]
    }
Json = dict[str, Any]
RECORDED = "/tmp/codeagent-00000000"
"""Where a machine was when it was made. Where one is placed has a path as long, so that what is
wrapped is wrapped alike."""
THOUGHT = Turn(
    text="I look.",
    thinking=(("Let me think.", "signed-1"), ("", "redacted-1")),
    calls=(("read", {"path": "a.txt"}),),
    ids=("toolu_9",),
)
"""An answer with signed thinking, which a provider takes back only as it was."""
THOUGHT_AGAIN = Turn(text="Two lines.", thinking=(("It has two.", "signed-2"),))
MODELS = {"openai": "openai/local", "anthropic": "anthropic/claude-sonnet-4-5"}
_SERVERS = {"openai": openai_server, "anthropic": anthropic_server}
_VOLATILE = re.compile(
    r"(?<=session )[0-9]{8}-[0-9]{6}-[0-9a-f]{8}$"
    r"|(?<= )[0-9.]+ m?s(?= · session)|(?<=  )[0-9.]+ m?s$|about [0-9,]+ tokens in",
    re.MULTILINE,
)
"""What a run is called, and takes."""
_SEAL = re.compile(rb',"crc":"[0-9a-f]{8}"\}$')
_LINK = re.compile(rb',"prev":"[0-9a-f]{8}"\}$')
_PLACED = 1_795_860_000
"""When a stored file was changed, in seconds since the epoch."""
_PINNED = (
    '["n", "python3", ["ROOT/home/notes.py"], ""]',
    '["notes", "python3", ["ROOT/repo/tools/notes.py"], ""]',
    '["notes", "python3", ["ROOT/repo/tools/notes.py"], "", false, "ROOT/repo"]',
)
"""What the names of files about servers are made of."""
_FOLDER = re.compile(rb'"device":[0-9]+,"inode":[0-9]+')


class Machine(Product):
    """A stored machine in a place of its own; nothing of this one is read."""

    @property
    def root(self) -> Path:
        return self.home.parent

    @property
    def environment(self) -> dict[str, str]:
        own = {"HOME": str(self.home), "TZ": "UTC", "LANG": "C.UTF-8"}
        keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
        return super().environment | own | keys


@contextmanager
def machine(root: Path) -> Iterator[Machine]:
    """An empty machine in this folder, which is removed afterwards."""
    made = Machine(root / "repo", root / "home")
    try:
        made.workspace.mkdir(parents=True)
        made.home.mkdir()
        yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def placed(case: Path) -> Iterator[Machine]:
    """A stored machine, usable: its paths are those of its place, and its logs are sealed again."""
    root = Path(f"{RECORDED[:-8]}{secrets.token_hex(4)}")
    with machine(root) as made:
        status = made.workspace.stat()
        identity = f'"device":{status.st_dev},"inode":{status.st_ino}'.encode()
        for stored in sorted(path for path in case.rglob("*") if path.is_file()):
            path = root / stored.relative_to(case)
            for server in _PINNED:
                path = path.with_name(
                    path.name.replace(_name(server, RECORDED), _name(server, root))
                )
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            data = stored.read_bytes().replace(RECORDED.encode(), str(root).encode())
            data = _FOLDER.sub(identity, data)
            path.write_bytes(resealed(data) if path.name == "events.jsonl" else data)
            path.chmod(0o600)
            os.utime(path, (_PLACED, _PLACED))
        yield made


def _name(server: str, root: str | Path) -> str:
    return sha256(server.replace("ROOT", str(root)).encode()).hexdigest()[:16]


def resealed(log: bytes) -> bytes:
    """The same lines with the checksums that their texts have; a damaged line stays as it is."""
    lines = log.split(b"\n")
    before = b"00000000"
    for number, line in enumerate(lines):
        if not _SEAL.search(line):
            continue
        body = _SEAL.sub(b"}", line)
        if _LINK.search(body):
            body = _LINK.sub(b',"prev":"%s"}' % before, body)
        before = b"%08x" % zlib.crc32(body)
        lines[number] = body[:-1] + b',"crc":"%s"}' % before
    return b"\n".join(lines)


def told(made: Machine, *arguments: str) -> Json:
    """What a command says, with the paths that the machine had when it was made."""
    done = made.call(*(word.replace(RECORDED, str(made.root)) for word in arguments))
    out, err = (text.replace(str(made.root), RECORDED) for text in (done.out, done.err))
    out, err = _VOLATILE.sub("…", out), _VOLATILE.sub("…", err)
    if out.startswith("<svg"):
        out = "a picture"
    if "--json" in arguments and arguments[0] == "tools":
        own = (tool for tool in json.loads(out) if tool["source"] != "builtin")
        out = json.dumps(list(own), ensure_ascii=False)
    return {"arguments": list(arguments), "code": done.code, "out": out, "err": err}


def shown(made: Machine) -> list[str]:
    """What the screen shows of each log, in the order of their paths."""
    logs = sorted(made.home.glob("state/codeagent/sessions/**/events.jsonl"))
    return [_shown(log).replace(str(made.root), RECORDED) for log in logs]


def _shown(log: Path) -> str:
    recorded = read_recording(log).events
    state = UiState()
    reducer = Reducer(state, live=False, **_CARDS)
    for event in recorded:
        reducer.apply(event)
    reducer.end_recording()
    return printed(state.document.blocks, 100, "full", recorded[-1].ts)


def own_look(made: Machine) -> list[str]:
    """The keys of the screen that are not as usual, then the colours and styles of each theme."""
    folder = made.home / "config/codeagent"
    chosen = load_keymap(folder / "keys.yaml").overrides
    look = [f"{action}: {keys}" for action, keys in sorted(chosen.items())]
    for theme in map(load_theme, sorted(folder.glob("themes/*.yaml"))):
        look += [f"{theme.textual.name} {vars(theme.textual)}"]
        look += sorted(_styles(theme.palette))
    return look


def _styles(part: Any) -> Iterator[str]:
    """Yield every style of a palette, however it is put together."""
    if isinstance(part, Style):
        yield str(part)
        return
    for each in (part if isinstance(part, Mapping) else vars(part)).values():
        yield from _styles(each)


def sent(made: Machine, wire: str) -> list[Json]:
    """The messages that a model gets when the last session here is continued, but for the system
    prompt, which may change from version to version."""
    with served_by(wire, [Turn(text="Continued."), THOUGHT, THOUGHT_AGAIN]) as server:
        done = made.call(
            *("run", "and now?", "--continue", "--sandbox", "off"),
            *("--model", MODELS[wire], "--api-base", server.base_url),
        )
    assert (done.code, done.out) == (0, "Continued.\n"), done
    text = json.dumps(server.requests[0].body["messages"], ensure_ascii=False)
    messages: list[Json] = json.loads(text.replace(str(made.root), RECORDED))
    return [message for message in messages if message["role"] != "system"]


@contextmanager
def served_by(wire: str, turns: list[Turn]) -> Iterator[FakeProvider]:
    """A provider on loopback, in a thread of its own: the product takes this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving = _SERVERS[wire](turns)

    def run(step: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result(30)

    try:
        yield run(serving.__aenter__())
    finally:
        run(serving.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
