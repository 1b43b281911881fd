"""A server that is out to do harm: whatever it does, these hold for every one of
its behaviours.

Nothing raises but a ToolError, nothing takes much longer than the limits, memory stays bounded, no
text of it acts on a terminal, no tool takes another's name, nothing of it is left running.
"""

import asyncio
import os
import re
import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.policy import Policy
from codeagent.core.sanitize import visible
from codeagent.extensions.mcp.config import ServerConfig
from tests.effort import part
from tests.extensions.mcp.hostile import BEHAVIOURS
from tests.extensions.mcp.setting import Setting, answer_of, hostile, serving

_NAME = re.compile(r"mcp__hostile__[A-Za-z0-9_-]+")
_MOST_MEMORY = 300 << 20
"""Bytes by which this process may have grown, at any moment that is looked at."""
_HIDDEN = "\\x1b"
_ECHO = ("echo",)
_UNKNOWN = "whether the call took effect is unknown"
_HI = (({"text": "hi"}, "hi"),)


@dataclass(frozen=True)
class Case:
    behaviour: str
    tools: tuple[str, ...] = _ECHO
    """Without `mcp__hostile__`."""
    calls: tuple[tuple[dict[str, Any], str], ...] = _HI
    """Arguments for the first tool, and what the answer must contain."""
    problem: str = ""
    """What must be said about it; empty: nothing is."""
    state: str = "ready"
    after: str = ""
    """What is said once the calls are over, if that is something else."""
    fields: dict[str, Any] = field(default_factory=dict)


def _hashed(name: str) -> str:
    return f"{re.sub('[^a-z]', '_', name)}-{sha256(name.encode()).hexdigest()[:8]}"


FAST = {"start_timeout": 1.0}
QUICK = {"timeout": 0.5}
NONE: tuple[Any, ...] = ()

CASES = (
    Case("Server"),
    Case("NamedLikeBuiltins", ("bash", "read", "mcp__other__echo")),
    Case(
        "NamesThatCollapse",
        ("read-file", "read_file", *map(_hashed, ("read file", "read.file", "a b", "a/b"))),
    ),
    Case("OneNameTwice", problem="another tool of the server is also called"),
    Case("UnicodeNames", ("_cho", "_evil", "__31mred", "a_b", "_")),
    Case("EmptyName", ("_",)),
    Case(
        "EndlessName",
        tuple("x" * 41 + "-" + sha256(b"x" * n).hexdigest()[:8] for n in (100_000, 100_001)),
    ),
    Case("NameIsANumber", NONE, NONE, "it has no name"),
    Case(
        "TenThousandTools",
        tuple(f"t{n}" for n in range(1000)),
        problem="only the first 1000 of 10000",
    ),
    Case("FiftyMegabyteSchema", NONE, NONE, "a message of more than 8 MiB", "failed"),
    Case("LargeSchema", problem="its schema has 100"),
    Case("SchemaOfItself", ("echo", "loop")),
    Case("PropertyOfItself", ("loop",), (({"text": "x"}, "cannot be checked"),)),
    Case("DoublingReferences", problem="refers to itself so often"),
    Case("RemoteReference", problem="nothing is fetched"),
    Case(
        "ExplodingPattern",
        calls=(({"text": "a" * 40 + "!"}, "reasonable time"), ({"text": "aaa"}, "aaa")),
    ),
    Case("BrokenPattern"),
    Case("DeepSchema", problem="more than 32 levels deep"),
    Case("BottomlessSchema"),
    Case("SchemaOfAString", problem="not for an object"),
    Case("SchemaIsAList", NONE, NONE, "not for an object"),
    Case("HiddenPropertyNames", problem="invisible characters"),
    Case("EvilDescription"),
    Case("EndlessDescription", NONE, NONE, "at most 131,072 are accepted"),
    Case("LongDescription"),
    Case("LiesAboutReading", ("delete_all",)),
    Case("Instructs", calls=(({"text": "x"}, _HIDDEN),)),
    Case(
        "BreaksItsPromise",
        calls=(
            (
                {"text": '{"n": "\\u001b]0;x"}'},
                "the schema of hostile: n should be a valid integer. Do not",
            ),
            ({"text": "[1]"}, "the schema of hostile: it should be an object, not a list"),
            ({"text": "null"}, "the schema of hostile: it is missing"),
            ({"text": '{"n": 1}'}, "done"),
        ),
    ),
    Case("RugPull", after="not used until you agree"),
    Case("Redefines"),
    Case("RedefinesAndTells"),
    Case("OneMoreTool", after="not used until you agree"),
    Case("ChangesAllTheTime"),
    Case("EndlessPages", tuple(f"page{n}" for n in range(1, 101))),
    Case("SamePageAgain", problem="another tool of the server is also called"),
    Case("WrongIds", calls=(({"text": "x"}, "did not answer within"),) * 2, fields=QUICK),
    Case("AnswersTwice", calls=(({"text": "one"}, "one"), ({"text": "two"}, "two"))),
    Case("NeverBegins", NONE, NONE, "within 1 s", "failed", fields=FAST),
    Case("NeverLists", NONE, NONE, "within 1 s", "failed", fields=FAST),
    Case("NeverAnswers", calls=(({"text": "x"}, "it was told to stop"),), fields=QUICK),
    Case("NeverReads", calls=(({"text": "x" * 9_000_000}, "did not answer within"),), fields=QUICK),
    Case("GigabyteResult", calls=(({"text": "x"}, "a message of more than 8 MiB"),)),
    Case("HundredThousandBlocks", calls=(({"text": "x"}, "99800 more blocks were left out"),)),
    Case("NoiseOnStdout"),
    Case("BinaryNoise"),
    Case("OldJsonRpc"),
    Case(
        "DiesAtStart", NONE, NONE, "ended with code 3 (it wrote: cannot find the database", "failed"
    ),
    Case("DiesInEveryCall", calls=(({"text": "x"}, _UNKNOWN),)),
    Case("DiesOnce", calls=(({"text": "x"}, _UNKNOWN), ({"text": "again"}, "again"))),
    Case("HalfAMessage", calls=(({"text": "x"}, _UNKNOWN),)),
    Case("WantsTheModel", calls=(({"text": "x"}, "refused"),)),
    Case("Phishes", calls=(({"text": "x"}, "decline"),)),
    Case("AsksWithoutEnd", calls=(({"text": "x"}, "decline"),)),
    Case("AsksWithoutReading", calls=(({"text": "x"}, "without waiting for an answer"),)),
    Case("AsksOutsideOfCalls"),
    Case("UnknownRequests"),
    Case("WritesToStderr", calls=tuple(({"text": f"call {n}"}, f"call {n}") for n in range(10))),
    Case("EndlessStderr"),
    Case("FloodsProgress"),
    Case("BadImages", calls=(({"text": "x"}, "[image of type text/html: not shown]"),)),
    Case("EvilResult", calls=(({"text": "x"}, _HIDDEN),)),
    Case("ErrorWithoutAText", calls=(({"text": "x"}, "(no output)"),)),
    Case("ResultIsAText", calls=(({"text": "x"}, "breaks the protocol"),)),
    Case("DeepResult", calls=(({"text": "x"}, '"a"'),)),
    Case("ErrorOfItsOwn", calls=(({"text": "x"}, "the pod is away"), ({"text": "x"}, "call 2"))),
    Case("EvilError", calls=(({"text": "x"}, _HIDDEN),)),
    Case("OnlyPrompts", NONE, NONE),
    Case("NoToolsAfterAll", NONE, NONE, "Method not found", "failed"),
    Case(
        "OtherProtocol",
        NONE,
        NONE,
        "it speaks version 1999-01-01 of MCP, and codeagent speaks 2024-11-05, ",
        "failed",
    ),
    Case("OnlyTheFuture", NONE, NONE, "it speaks version 2099-01-01, 2100-01-01 of MCP", "failed"),
    Case(
        "NoHandshakeAtAll",
        NONE,
        NONE,
        "did not begin as the protocol requires: Method not found",
        "failed",
    ),
    Case("OnlyWithoutHandshake", calls=(({"text": "x"}, '["state", {"action": "decline"}]'),)),
    Case("AsksForEver", calls=(({"text": "x"}, "it kept asking questions instead of answering"),)),
    Case("DoesNotWantToEnd"),
    Case("Writes", calls=(({"text": "a b"}, "wrote a; wrote b"),)),
    Case("NeverStopsWriting", calls=(({"text": "a"}, "wrote a"),)),
    Case("WritesAndDies", NONE, NONE, "it ended with code 3", "failed"),
    Case("CannotStartWithoutWriting"),
)


def test_every_behaviour_has_its_case() -> None:
    assert {case.behaviour for case in CASES} == set(BEHAVIOURS)
    assert len(CASES) >= 40


@pytest.mark.soak(tried=1, row="MCP servers")
@pytest.mark.parametrize("case", part(CASES, 24), ids=lambda case: case.behaviour)
async def test_a_hostile_server_does_no_harm(case: Case, tmp_path: Path) -> None:
    before, began = memory(), time.monotonic()
    async with hostile(case.behaviour, tmp_path, **case.fields) as setting:
        listing = setting.source.list()
        assert tuple(name.removeprefix("mcp__hostile__") for name in setting.names) == case.tools
        assert (listing.state, bool(setting.problems)) == (case.state, bool(case.problem))
        assert case.problem in setting.problems
        for arguments, expected in case.calls:
            if setting.source.list().state == "starting":
                await setting.until(lambda: setting.source.list().state == "ready")
            answer = await answer_of(setting, case.tools[0], **arguments)
            assert expected in answer
            assert visible(answer) == answer
            assert memory() - before < _MOST_MEMORY
        if case.after:
            await setting.until(lambda: case.after in setting.problems)
        assert_harmless(setting)
    assert_nothing_runs(tmp_path)
    assert time.monotonic() - began < 60


def assert_harmless(setting: Setting) -> None:
    """No text acts on a terminal, and no tool is called like another or is free of questions."""
    listing = setting.source.list()
    names = [tool.name for tool in listing.tools]
    assert len(set(names)) == len(names)
    texts = [
        *names,
        *(tool.summary for tool in listing.tools),
        *(problem.text for problem in listing.problems),
    ]
    texts += [listing.about, *setting.source.record.lines, *setting.progress]
    for name in names:
        assert _NAME.fullmatch(name) and len(name) <= 64
        tool = setting.source.get(name)
        assert tool.permission == "prompt"
        key = tool.approval_key(tool.Args())
        assert Policy().check(name, key, tool.permission, tool.effect).permission == "prompt"
        texts += [tool.label, tool.description, tool.documentation, str(tool.schema)]
        assert len(tool.description) <= 4000
    assert [text for text in texts if visible(text) != text] == []
    assert sum(map(len, setting.source.record.lines)) < 200_000
    assert len(setting.progress) < 1000


def assert_nothing_runs(folder: Path) -> None:
    """Every process that the server named as its own has ended."""
    for pid in pids(folder):
        state = (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if alive(pid)
            else "Z"
        )
        assert state in "ZX"


def pids(folder: Path) -> list[int]:
    return [int(file.name.removeprefix("pid-")) for file in folder.glob("pid-*")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def memory() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_program_that_the_sandbox_does_not_have_can_run_on_the_machine_if_the_users_own_file_says_so(
    tmp_path: Path,
) -> None:
    config = ServerConfig("gone", "sh", ("-c", "exit 127"))
    async with serving(tmp_path, config) as setting:
        await setting.start()
        assert setting.problems == (
            "unavailable: the sandbox has no sh: choose an image that has it (sandbox.image), or run it on this "
            'machine, with "where": "machine" in your own mcp.json'
        )


async def test_a_server_that_dies_in_every_call_is_started_again_once(tmp_path: Path) -> None:
    async with hostile("DiesInEveryCall", tmp_path) as setting:
        assert _UNKNOWN in await answer_of(setting, text="x")
        assert "unavailable" in await answer_of(setting, text="x")
        await setting.until(lambda: setting.source.list().state == "ready")
        assert _UNKNOWN in await answer_of(setting, text="x")
        await setting.until(lambda: setting.source.list().state == "failed")
        assert "unavailable: it ended with code 9" in await answer_of(setting, text="x")
        assert setting.names == ["mcp__hostile__echo"]
        assert len(pids(tmp_path)) == 2


async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async with hostile("NeverAnswers", tmp_path) as setting:
        call = asyncio.create_task(answer_of(setting, text="x"))
        for _ in range(10):
            await asyncio.sleep(0)
        call.cancel()
        assert "told to stop" in await call
        await setting.until(lambda: "was_cancelled" in setting.problems)


async def test_a_server_that_changes_all_the_time_is_not_asked_all_the_time(tmp_path: Path) -> None:
    async with hostile("ChangesAllTheTime", tmp_path) as setting:
        assert await answer_of(setting, text="hi") == "hi"
        assert len((tmp_path / "listed").read_text()) < 20


async def test_a_closed_source_is_quiet_even_if_it_was_never_started(tmp_path: Path) -> None:
    async with hostile("NeverBegins", tmp_path, start_timeout=0.2) as setting:
        await setting.source.close()
        await setting.source.close()
