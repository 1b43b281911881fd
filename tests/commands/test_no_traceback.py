"""Whatever stands on the command line and wherever it is typed: an exit code and one line, never a
traceback."""

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent import cli
from codeagent.core.event_json import event_json
from codeagent.core.redact import Redactor
from tests.session.eventlogs import finished_run

CODES = {0, 1, 2, 3, 4, 130, 141}
WORDS = (
    "",
    "x",
    "-",
    "--",
    "1",
    "0",
    "-1",
    "nan",
    "inf",
    "1e999",
    "9" * 5000,
    "true",
    "a=b",
    "=",
    "path=a.txt",
    "content=x",
    "command=true",
    "read",
    "bash",
    "write(*)",
    "bash(",
    "*",
    "a.txt",
    ".",
    "nowhere",
    "20",
    "last",
    "steer@tool:1=x",
    "sequential",
    "batched:0",
    "http://127.0.0.1:9",
    "caf\xe9 \u2713 \U0001f600 \u202e",
    "\udcff",
    "\x1b]52;c;eA==\x07",
    "\n",
    "x" * 5000,
    "20200101-000000-0000000a",
    "20200101-000000-0000000b",
    "odd",
    "plain",
    "20200101-000000-0000000c",
    "odd/.codeagent/tools/a.py",
    "odd/.codeagent/tools/b.yaml",
    "ok.json",
)
UNUSED = {"help", "version", "cwd", "headless"}
"""`codeagent demo --headless` works for a while; that it does is tested elsewhere."""
SERVERS = json.dumps(
    {
        "mcpServers": {
            "x": {"url": "http://127.0.0.1:9"},
            "a.txt": {},
            "read": {"command": "nowhere", "where": "machine"},
            "bash": {
                "command": "x",
                "args": ["\udcff", "\x1b]52;c;eA==\x07"],
                "env": {"K": "${NOT_SET}"},
            },
            "1": {"command": "x"},
        }
    }
).encode()
"""Named as words of a command line, so that they are found."""
MODELS = ("script:ok.json", "script:nowhere.json", "script:.", "script:", "script:odd.json", "")


def parsers() -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """Every command and sub-command, with its parser; () is the screen."""
    found: dict[tuple[str, ...], argparse.ArgumentParser] = {(): cli.build_screen_parser()}

    def walk(name: tuple[str, ...], parser: argparse.ArgumentParser) -> None:
        below = [
            action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
        ]
        for action in below:
            for word, one in action.choices.items():
                walk((*name, word), one)
        if not below:
            found[name] = parser

    for command in cli.commands():
        walk((command.name,), cli.build_parser(command.name))
    return found


PARSERS = parsers()


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its own flags and arguments, and values that fit or do not."""
    name = draw(st.sampled_from(sorted(PARSERS)))
    parser, out = PARSERS[name], []
    offered = [one for one in parser._actions if one.option_strings and one.dest not in UNUSED]
    chosen = draw(st.lists(st.sampled_from(offered), max_size=3)) if offered else []
    for action in (
        *chosen,
        *(one for one in parser._actions if not one.option_strings and draw(st.integers(0, 4))),
    ):
        out += [action.option_strings[-1]] if action.option_strings else []
        if action.nargs != 0:
            out.append(
                draw(
                    st.sampled_from(
                        MODELS if action.dest == "model" else tuple(action.choices or WORDS)
                    )
                )
            )
    if name == ("run",) and "--model" not in out:
        out += ["--model", draw(st.sampled_from(MODELS))]
    takes_cwd = any(action.dest == "cwd" for action in parser._actions)
    return [
        *name,
        *out,
        *(["--cwd", draw(st.sampled_from(PLACES))] if takes_cwd and draw(st.booleans()) else []),
    ]


def _nothing(base: Path) -> Path:
    return base / "nothing"


def _file(base: Path) -> Path:
    (base / "file").write_text("not a folder\n")
    return base / "file"


def _unwritable(base: Path) -> Path:
    """Also for root."""
    return Path("/sys/kernel")


def _not_utf8(base: Path) -> Path:
    path = Path(os.fsdecode(os.fsencode(base) + b"/caf\xe9\xff"))
    path.mkdir()
    return path


def _put(path: Path, data: bytes = b"\xff\xfe{: not [anything") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _old_state(base: Path) -> Path:
    """Sessions that are sound, damaged, empty, and none at all."""
    sessions = base / "state/codeagent/sessions"
    sound = "\n".join(event_json(event, Redactor({})) for event in finished_run()).encode()
    _put(sessions / "20200101-000000-0000000a/events.jsonl", sound)
    _put(sessions / "20200101-000000-0000000b/events.jsonl")
    _put(sessions / "20200101-000000-0000000c/events.jsonl", b"")
    _put(sessions / "20200101-000000-0000000c/lock")
    (sessions / "20200101-000000-0000000d/events.jsonl").mkdir(parents=True)
    _put(sessions / "20200101-000000-0000000e")
    return base / "state"


def _odd_config(base: Path) -> Path:
    for name in (
        "keys.yaml",
        "rules.jsonl",
        "trust.json",
        "tools/a.py",
        "tools/b.yaml",
        "hooks/c.py",
        "mcp.json",
    ):
        _put(base / "config/codeagent" / name)
    return base / "config"


def _config_file(data: bytes) -> Callable[[Path], Path]:
    def make(base: Path) -> Path:
        _put(base / "config/codeagent/config.toml", data)
        return base / "config"

    return make


def _servers(base: Path) -> Path:
    _put(base / "config/codeagent/mcp.json", SERVERS)
    return base / "config"


def _config_folder(base: Path) -> Path:
    (base / "config/codeagent/config.toml").mkdir(parents=True)
    return base / "config"


STATES = (_nothing, _file, _unwritable, _not_utf8, _old_state)
CONFIGS = (
    _nothing,
    _file,
    _unwritable,
    _odd_config,
    _config_folder,
    _servers,
    _config_file(b"\xff\xfe"),
    _config_file(b"mode = 3"),
    _config_file('model = "script:ok.json"\ntheme = "\u2713"'.encode()),
)
PLACES = ("plain", "nowhere", "a.txt", "odd", "caf\udce9", "gone/below")


def _workspaces(base: Path) -> Path:
    """The folder in which commands are typed; `PLACES` are below it."""
    here = base / "here"
    (here / "plain").mkdir(parents=True)
    (here / "caf\udce9").mkdir()
    _put(here / "a.txt", b"text\n")
    _put(here / "ok.json", b'[{"text": "fine \xe2\x9c\x93"}]')
    _put(here / "odd.json")
    _put(here / "odd/.codeagent/config.toml")
    _put(here / "odd/.mcp.json")
    _put(here / "plain/.mcp.json", SERVERS)
    _put(here / "odd/.codeagent/tools/a.py")
    _put(here / "odd/.codeagent/tools/b.yaml")
    _put(here / "odd/.codeagent/skills/c/SKILL.md")
    (here / "odd/AGENTS.md").mkdir()
    return here


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    err: bytes


class _Full(io.RawIOBase):
    """A disk without room."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


class _Gone(_Full):
    """A pipe that nobody reads."""

    def write(self, data: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")


Streams = tuple[str, io.RawIOBase | io.BytesIO | None, io.RawIOBase | io.BytesIO | None, bool]


def _stream(target: io.RawIOBase | io.BytesIO | None, encoding: str) -> io.TextIOWrapper | None:
    if target is None:
        return None
    binary = target if isinstance(target, io.BytesIO) else io.BufferedWriter(target)
    return io.TextIOWrapper(binary, encoding=encoding, write_through=isinstance(target, io.BytesIO))


@contextlib.contextmanager
def typed_in(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with patch.dict(os.environ, environment), contextlib.chdir(folder):
        yield


def run_there(
    line: list[str],
    base: Path,
    *,
    state: Callable[[Path], Path] = _nothing,
    config: Callable[[Path], Path] = _nothing,
    encoding: str = "utf-8",
    out: str = "kept",
    stdin: bool = True,
    removed: bool = False,
    engine: bool = False,
) -> Ended:
    """`removed`: the folder it is typed in is gone by then; `engine`: there is one."""
    targets: dict[str, Callable[[], io.RawIOBase | io.BytesIO | None]] = {
        "kept": io.BytesIO,
        "full": _Full,
        "gone": _Gone,
        "closed": lambda: None,
    }
    printed, complained = targets[out](), io.BytesIO()
    environment = {
        "XDG_STATE_HOME": str(state(base)),
        "XDG_CONFIG_HOME": str(config(base)),
        "TMPDIR": str(base),
        **({} if engine else {"DOCKER_HOST": f"unix://{base}/no.sock"}),
    }
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO()) if stdin else None,
        "stdout": _stream(printed, encoding),
        "stderr": _stream(complained, encoding),
    }
    here = _workspaces(base)
    with typed_in(here, environment), patch.multiple(sys, **streams):
        if removed:
            shutil.rmtree(here)
        code = cli.main(line)
    return Ended(
        code, printed.getvalue() if isinstance(printed, io.BytesIO) else b"", complained.getvalue()
    )


def is_no_accident(ended: Ended) -> bool:
    said = ended.err
    return ended.code in CODES and b"Traceback" not in said and b"bug of its own" not in said


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    line=command_lines(),
    state=st.sampled_from(STATES),
    config=st.sampled_from(CONFIGS),
    encoding=st.sampled_from(["utf-8", "latin-1", "ascii"]),
    out=st.sampled_from(["kept", "kept", "full", "gone", "closed"]),
    stdin=st.booleans(),
    removed=st.sampled_from([False] * 7 + [True]),
)
def test_no_command_prints_a_traceback(line: list[str], **where: Any) -> None:
    with tempfile.TemporaryDirectory() as base:
        ended = run_there(line, Path(base), **where)
    assert is_no_accident(ended), ended


@pytest.mark.docker
@pytest.mark.parametrize("state", [_file, _unwritable], ids=["a file", "read-only"])
@pytest.mark.parametrize("line", [["doctor"], ["sandbox", "test"]], ids=" ".join)
def test_a_state_folder_that_cannot_be_written_is_said_with_what_to_do(
    line: list[str], state: Callable[[Path], Path], tmp_path: Path
) -> None:
    ended = run_there(line, tmp_path, state=state, engine=True)
    said = (ended.out + ended.err).decode()
    assert ended.code == 1 and is_no_accident(ended), ended
    assert (
        "the sandbox's files cannot be kept in" in said
        and "set XDG_STATE_HOME to a folder that is" in said
    )


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_json_stays_json_where_a_stream_cannot_write_every_character(
    encoding: str, tmp_path: Path
) -> None:
    def theme(base: Path) -> Path:
        return _config_file('theme = "caf\u00e9 \u2713 \U0001f600"'.encode())(base)

    ended = run_there(["config", "show"], tmp_path, config=theme, encoding=encoding)
    assert json.loads(ended.out.decode(encoding))["theme"] == "caf\u00e9 \u2713 \U0001f600"


def test_a_result_that_could_not_be_written_is_a_failure(tmp_path: Path) -> None:
    ended = run_there(["config", "schema"], tmp_path, out="full")
    assert (ended.code, ended.err) == (
        1,
        b"codeagent: could not write (No space left on device), so what was printed is not complete\n",
    )


def test_what_should_never_happen_is_one_line_and_a_report(tmp_path: Path) -> None:
    with patch(
        "codeagent.commands.config.settings_of", side_effect=RuntimeError("boom \x1b]52;c;eA==\x07")
    ):
        ended = run_there(["config", "show"], tmp_path)
    (line,) = ended.err.decode().splitlines()
    assert ended.code == 1 and "\x1b" not in line
    assert line.startswith("codeagent: crashed (internal error) (RuntimeError: boom ")
    report = Path(line.rpartition("report: ")[2])
    assert "Traceback" in report.read_text()
