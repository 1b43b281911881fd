"""`codeagent mcp serve`: another program calls our tools, every call takes the usual path, and
nothing else is said."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests import warm
from tests.e2e.product import Product

ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
SIX = ["bash", "read", "write", "edit", "list", "search"]


class User:
    """Answers what is asked about, and keeps the questions."""

    def __init__(self, answer: str = "allow", action: Any = "accept") -> None:
        self.asked: list[str] = []
        self._answer = answer
        self._action = action

    async def __call__(self, context: object, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action=self._action, content={"answer": self._answer})


@pytest.fixture
def product(tmp_path: Path) -> Product:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "work" / "a.txt").write_text("hello\n")
    return Product(tmp_path / "work", tmp_path / "home")


@asynccontextmanager
async def connected(
    product: Product, *flags: str, user: User | None = None, era: str = "auto", sandbox: str = "off"
) -> AsyncIterator[Client]:
    """The SDK's own client; without a user it does not offer to ask."""
    arguments = [warm.__file__, "mcp", "serve", "--sandbox", sandbox, *flags]
    environment = product.environment | {warm.RUN: os.environ[warm.RUN]}
    command = StdioServerParameters(
        command=sys.executable, args=arguments, cwd=product.workspace, env=environment
    )
    async with Client(command, mode=era, elicitation_callback=user) as client:
        yield client


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


PADDINGS = (
    (" " * 60, "⟨60 spaces⟩"),
    ("\t" * 9, "⟨9 tabs⟩"),
    ("\n" * 60, " blank lines"),
    (" \t" * 30, "⟨60 blanks⟩"),
    ("\u00a0" * 40, "⟨40 blanks⟩"),
    ("\u3000" * 40, "⟨40 blanks⟩"),
    ("\n" + " " * 7 + "\n" * 20, " blank lines"),
)


async def test_blanks_that_hide_the_end_of_what_is_asked_about_are_folded_with_a_count(
    product: Product,
) -> None:
    user = User(answer="deny")
    async with connected(product, user=user) as client:
        for padding, _ in PADDINGS:
            await client.call_tool("bash", {"command": f"echo a{padding}; touch hidden"})
        await client.call_tool("bash", {"command": f"echo b{' ' * 8}c"})
    *asked, plain = user.asked
    for (_, words), message in zip(PADDINGS, asked, strict=True):
        assert (
            words in message
            and "touch hidden" in message
            and re.search(r"[^\S\n]{9}|\n{9}", message) is None
        )
    assert f"echo b{' ' * 8}c" in plain
    assert not (product.workspace / "hidden").exists()


async def test_the_six_tools_are_offered_and_a_call_is_a_session_in_the_log(
    product: Product,
) -> None:
    async with connected(product) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("read", {"path": "a.txt"})
    assert list(tools) == [*SIX, "output_read"]
    assert [
        name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint
    ] == ["read", "list", "search", "output_read"]
    assert "run_in_background" not in json.dumps(tools["bash"].input_schema)
    assert (result.is_error, text_of(result)) == (False, "1\thello")
    log = product.log()
    (added,) = [event for event in log if event["type"] == "tool.result"]
    assert (added["name"], added["executed"], added["approval"]) == ("read", True, "auto")
    assert "calls tools over MCP" in json.dumps(
        next(event for event in log if event["type"] == "message.added")
    )


@ERAS
async def test_what_has_to_be_approved_is_asked_about_through_the_program(
    era: str, product: Product
) -> None:
    user = User()
    async with connected(product, user=user, era=era) as client:
        result = await client.call_tool("write", {"path": "b.txt", "content": "new\n"})
    assert not result.is_error and (product.workspace / "b.txt").read_text() == "new\n"
    (asked,) = user.asked
    assert asked.startswith("write: ") and "+new" in asked
    (resolved,) = [event for event in product.log() if event["type"] == "approval.resolved"]
    assert (resolved["answer"], resolved["source"]) == ("once", "user")


@ERAS
@pytest.mark.parametrize(
    "answer, action",
    [("deny", "accept"), ("allow", "decline"), ("allow", "cancel"), ("yes", "accept")],
)
async def test_only_an_accepted_form_that_says_allow_is_a_yes(
    answer: str, action: str, era: str, product: Product
) -> None:
    user = User(answer, action)
    async with connected(product, user=user, era=era) as client:
        result = await client.call_tool("write", {"path": "b.txt", "content": "new\n"})
    assert result.is_error and len(user.asked) == 1 and not (product.workspace / "b.txt").exists()


async def test_a_program_that_cannot_ask_is_told_what_would_allow_it(product: Product) -> None:
    async with connected(product) as client:
        result = await client.call_tool("write", {"path": "b.txt", "content": "new\n"})
        assert result.is_error and "--allow 'write(*.txt)'" in text_of(result)
    async with connected(product, "--allow", "write(*.txt)") as client:
        assert not (await client.call_tool("write", {"path": "b.txt", "content": "new\n"})).is_error


async def test_what_is_denied_stays_denied_and_is_not_asked_about(product: Product) -> None:
    user = User()
    async with connected(product, "--deny", "read(a.txt)", user=user) as client:
        result = await client.call_tool("read", {"path": "a.txt"})
    assert result.is_error and "hello" not in text_of(result) and user.asked == []


async def test_calls_at_the_same_time_and_one_after_the_other_each_get_their_own_result(
    product: Product,
) -> None:
    for number in range(20):
        (product.workspace / f"{number}.txt").write_text(f"content of {number}\n")
    async with connected(product) as client:
        calls = [client.call_tool("read", {"path": f"{number}.txt"}) for number in range(20)]
        at_once = await asyncio.gather(*calls)
        after = [await client.call_tool("read", {"path": f"{number}.txt"}) for number in range(20)]
    for results in (at_once, after):
        assert [text_of(result) for result in results] == [
            f"1\tcontent of {number}" for number in range(20)
        ]


async def test_a_call_reports_what_it_prints_and_its_result_is_bounded(product: Product) -> None:
    told: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with connected(product, "--allow", "bash") as client:
        result = await client.call_tool(
            "bash", {"command": "echo begun; seq 200000"}, progress_callback=progress
        )
        again = await client.call_tool("bash", {"command": "echo it still works"})
    assert told and len(text_of(result)) < 100_000 and "output_read" in text_of(result)
    assert text_of(again) == "it still works"


async def test_a_cancelled_call_is_stopped_and_the_next_one_runs(product: Product) -> None:
    begun = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with connected(product, "--allow", "bash") as client:
        arguments = {"command": "echo begun; sleep 600"}
        call = asyncio.create_task(client.call_tool("bash", arguments, progress_callback=progress))
        await begun.wait()
        call.cancel()
        assert text_of(await client.call_tool("read", {"path": "a.txt"})) == "1\thello"
    (stopped,) = [
        event
        for event in product.log()
        if event["type"] == "tool.result" and event["name"] == "bash"
    ]
    assert stopped["error"]["kind"] == "cancelled"


@pytest.mark.parametrize(
    "name, arguments, why",
    [
        ("nope", {}, "no tool is named 'nope'"),
        ("python", {"code": "1"}, "no tool is named 'python'"),
        ("agent", {"prompt": "x"}, "no tool is named 'agent'"),
        (
            "bash",
            {"command": "true", "run_in_background": True},
            "run_in_background is not offered",
        ),
    ],
)
async def test_what_is_not_offered_is_an_error_of_the_protocol(
    name: str, arguments: dict[str, Any], why: str, product: Product
) -> None:
    async with connected(product) as client:
        with pytest.raises(MCPError, match=why):
            await client.call_tool(name, arguments)


async def test_a_file_that_is_read_again_is_shown_again_as_the_context_is_the_other_programs(
    product: Product,
) -> None:
    async with connected(product) as client:
        texts = [text_of(await client.call_tool("read", {"path": "a.txt"})) for _ in range(2)]
    assert texts == ["1\thello"] * 2


async def test_wrong_arguments_are_a_result_that_says_what_is_wrong(product: Product) -> None:
    async with connected(product) as client:
        result = await client.call_tool("read", {"pfad": "a.txt"})
    assert result.is_error and "path" in text_of(result)


async def test_the_agent_works_on_a_prompt_with_its_own_model_and_its_calls_are_asked_about(
    product: Product,
) -> None:
    model = product.script(
        {"calls": [["write", {"path": "b.txt", "content": "new\n"}]]}, {"text": "It is written."}
    )
    user = User()
    async with connected(product, "--model", model, user=user) as client:
        result = await client.call_tool("agent", {"prompt": "write it"})
    assert (result.is_error, text_of(result)) == (False, "It is written.")
    assert user.asked[0].startswith("write: ") and (product.workspace / "b.txt").exists()


async def test_an_agent_whose_calls_nobody_approves_is_an_error_that_says_so(
    product: Product,
) -> None:
    model = product.script(
        {"calls": [["write", {"path": "b.txt", "content": "new\n"}]]}, {"text": "I may not."}
    )
    async with connected(product, "--model", model) as client:
        result = await client.call_tool("agent", {"prompt": "write it"})
    assert result.is_error and "denied" in text_of(result) and "I may not." in text_of(result)
    assert not (product.workspace / "b.txt").exists()


async def test_a_cancelled_agent_is_stopped_and_its_session_says_so(product: Product) -> None:
    begun = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        begun.set()

    slow = {"text": "word " * 1000, "delay_ms": 1000}
    async with connected(
        product, "--model", product.script({"calls": [["read", {"path": "a.txt"}]]}, slow)
    ) as client:
        call = asyncio.create_task(
            client.call_tool("agent", {"prompt": "go"}, progress_callback=progress)
        )
        await begun.wait()
        call.cancel()
        assert text_of(await client.call_tool("read", {"path": "a.txt"})) == "1\thello"
    ends = [
        event["reason"]
        for session in product.sessions
        for event in map(json.loads, (session / "events.jsonl").read_text().splitlines())
        if event["type"] == "run.finished"
    ]
    assert sorted(ends) == ["done", "interrupted"]


async def test_an_agent_that_fails_is_an_error(product: Product) -> None:
    async with connected(product, "--model", product.script({"error": {"status": 401}})) as client:
        result = await client.call_tool("agent", {"prompt": "go"})
    assert result.is_error and "the run ended early" in text_of(result)


@pytest.mark.docker
async def test_commands_run_in_the_sandbox(product: Product) -> None:
    async with connected(product, "--allow", "bash", sandbox="docker") as client:
        result = await client.call_tool("bash", {"command": "test -e /.dockerenv && echo inside"})
    assert text_of(result) == "inside"


def test_without_a_sandbox_nothing_is_offered(product: Product) -> None:
    environment = product.environment | {"DOCKER_HOST": f"unix://{product.home}/no.sock"}
    done = product.call("mcp", "serve", env=environment)
    assert (done.code, done.out) == (1, "") and "it needs a sandbox, or --sandbox off" in done.err


def lines_of(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "\n",
        "not json\n",
        "[]\n",
        "x" * 100_000,
        lines_of({"id": 1, "method": "tools/call", "params": {"name": "read"}}),
    ],
    ids=["nothing", "empty line", "not json", "a list", "no newline", "before the handshake"],
)
def test_whatever_is_sent_only_the_protocol_is_on_standard_output(
    sent: str, product: Product
) -> None:
    done = product.call_apart("mcp", "serve", "--sandbox", "off", stdin=_given(product, sent))
    assert done.code == 0 and "Traceback" not in done.err
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in done.out.splitlines())


def _given(product: Product, text: str) -> Any:
    path = product.home / "sent"
    path.write_text(text)
    return path.open("rb")


async def test_other_servers_are_not_started_for_calls_not_even_this_one(product: Product) -> None:
    entry = {"command": "sh", "args": ["-c", f"touch {product.home}/ran; cat"], "where": "machine"}
    configure(product, "mcp.json", json.dumps({"mcpServers": {"codeagent": entry}}))
    configure(product, "config.toml", '[toolsets]\nuse = ["codeagent"]\n')
    async with connected(product) as client:
        assert text_of(await client.call_tool("read", {"path": "a.txt"})) == "1\thello"
    assert not (product.home / "ran").exists()


async def test_a_tool_that_the_user_does_not_allow_is_not_offered(product: Product) -> None:
    configure(product, "config.toml", 'tools = ["read", "python"]\n')
    async with connected(product) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read"]


async def test_a_call_that_a_hook_denies_has_a_result_and_the_next_one_too(
    product: Product,
) -> None:
    hooks = product.home / "config/codeagent/hooks"
    hooks.mkdir(parents=True)
    (hooks / "no.py").write_text(
        "from codeagent import Deny, hook\n\n\n@hook('prompt_submit')\ndef no(event):\n    return Deny('not today')\n"
    )
    async with connected(product) as client:
        for _ in range(2):
            result = await client.call_tool("read", {"path": "a.txt"})
            assert result.is_error and "not today" in text_of(result)


async def test_calls_beyond_the_limit_of_a_run_begin_another_one(product: Product) -> None:
    configure(product, "config.toml", "[limits]\nmax_calls = 2\nmax_turns = 1\n")
    async with connected(product) as client:
        calls = [client.call_tool("read", {"path": "a.txt"}) for _ in range(3)]
        at_once = [text_of(result) for result in await asyncio.gather(*calls)]
        after = [text_of(await client.call_tool("read", {"path": "a.txt"})) for _ in range(4)]
    assert after == ["1\thello"] * 4
    assert all(text == "1\thello" or "limit" in text for text in at_once)


def test_a_signal_ends_it_and_what_it_runs(product: Product) -> None:
    read, write = os.pipe()
    process = product.start("mcp", "serve", "--sandbox", "off", "--allow", "bash", stdin=read)
    os.close(read)
    command = "echo $$ > pid; sleep 600"
    os.write(
        write,
        lines_of(
            {
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                },
            },
            {"method": "notifications/initialized"},
            {
                "id": 2,
                "method": "tools/call",
                "params": {"name": "bash", "arguments": {"command": command}},
            },
        ).encode(),
    )
    pid = product.workspace / "pid"
    product.wait_for(lambda events: pid.exists() and pid.read_text().strip() != "")
    process.terminate()
    _, err = process.communicate(timeout=60)
    os.close(write)
    assert process.returncode == 128 + signal.SIGTERM and "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def configure(product: Product, name: str, text: str) -> None:
    path = product.home / "config/codeagent" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
