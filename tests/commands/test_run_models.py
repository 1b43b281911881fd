"""`codeagent run` against providers on loopback: what its flags and keys about models put on the
wire."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from codeagent.app import LocalApp
from codeagent.cli import build_parser, load
from codeagent.core.errors import ConfigError
from tests.llm.asking import LITELLM_WORKER
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server

CLAUDE = "anthropic/claude-sonnet-4-5"
Run = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Below it `config/codeagent/config.toml` is read; no key of the machine's counts."""
    for kind in ("config", "state", "data", "cache"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL",
        "CODEAGENT_MODEL",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config/codeagent").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    return tmp_path


@pytest.fixture(params=["auto", pytest.param("litellm", marks=LITELLM_WORKER)])
def run(request: pytest.FixtureRequest, folders: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """`await run(*arguments, config="")`: the exit code as `code`, the events, and standard error
    as `err`."""

    async def run(*arguments: str, config: str = "") -> dict[str, Any]:
        (folders / "config/codeagent/config.toml").write_text(config)
        fixed = ["hi", "--sandbox", "off", "--output", "jsonl", "--cwd", str(folders / "project")]
        fixed += ["--wire", request.param]
        args = build_parser("run").parse_args([*fixed, *arguments])
        capfd.readouterr()
        work: Any = load("run").main(args, LocalApp())
        code = await work
        captured = capfd.readouterr()
        return {
            "code": code,
            "events": [json.loads(line) for line in captured.out.splitlines()],
            "err": captured.err,
        }

    return run


def at(fake: FakeProvider, name: str = "openai/fake") -> list[str]:
    return ["--model", name, "--api-base", fake.base_url]


WHOLE_RUN = """
import asyncio, sys
from codeagent.app import LocalApp
from codeagent.cli import build_parser, load
code = asyncio.run(load("run").main(build_parser("run").parse_args(sys.argv[1:]), LocalApp()))
heavy = {"litellm", "openai", "httpx", "aiohttp", "tiktoken", "tokenizers"}
print(code, sorted(heavy & set(sys.modules)))
"""


async def test_a_run_imports_the_libraries_of_its_lane_alone(folders: Path) -> None:
    async with openai_server([Turn(calls=(("list", {}),)), Turn(text="done", usage=None)]) as fake:
        arguments = ["go", "--sandbox", "off", "--cwd", str(folders / "project"), *at(fake)]
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WHOLE_RUN, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        printed = (await done.communicate())[0].decode().splitlines()
        assert len(fake.requests) == 2
    assert (printed[0], printed[-1]) == ("done", "0 []")


@pytest.mark.parametrize("flag", [True, False], ids=["flag", "config"])
async def test_a_silent_provider_is_given_up_after_the_time_that_was_set(
    run: Run, flag: bool
) -> None:
    arguments = ["--model-timeout", "0.2"] if flag else []
    async with openai_server([Turn(cut_after=0, stall=True)], repeat=True) as fake:
        done = await run(
            *at(fake), *arguments, config="" if flag else "[limits]\nmodel_timeout = 0.2"
        )
    assert done["code"] == 1
    assert "openai/fake: nothing came for 0.2 s; gave up" in done["err"]
    assert "model.retry" not in str(done["events"])


EFFORTS = [
    ("low", {"reasoning_effort": "low"}, 4096),
    ("high", {"reasoning_effort": "high"}, 32_768),
    ("5000", {"reasoning_effort": "medium"}, 5000),
    ("off", {"reasoning_effort": "none"}, None),
]


@pytest.mark.parametrize(("level", "chat", "budget"), EFFORTS)
async def test_how_much_to_think_is_on_the_wire_of_both_formats(
    run: Run, level: str, chat: dict[str, str], budget: int | None
) -> None:
    async with openai_server([Turn(text="ok")]) as fake:
        assert (await run(*at(fake), "--thinking", level))["code"] == 0
        sent = fake.requests[0].body
    assert {key: sent.get(key) for key in chat} == chat
    key = f"thinking = {level if level.isdigit() else f'{chr(34)}{level}{chr(34)}'}"
    async with anthropic_server([Turn(text="ok")]) as fake:
        assert (await run(*at(fake, CLAUDE), config=key))["code"] == 0
        sent = fake.requests[0].body
    if budget is None:
        assert "thinking" not in sent
    else:
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": budget}
        assert sent["max_tokens"] > budget


@pytest.mark.parametrize("name", ["openai/fake", CLAUDE])
async def test_without_a_word_about_it_thinking_is_left_to_the_provider(
    run: Run, name: str
) -> None:
    server = openai_server if name == "openai/fake" else anthropic_server
    async with server([Turn(text="ok")]) as fake:
        await run(*at(fake, name))
        assert {"thinking", "reasoning_effort"}.isdisjoint(fake.requests[0].body)


@pytest.mark.parametrize("name", ["openai/fake", CLAUDE])
async def test_another_model_takes_over_from_one_that_is_refused_and_a_notice_says_so(
    run: Run, name: str
) -> None:
    provider = name.partition("/")[0]
    server = openai_server if provider == "openai" else anthropic_server
    refused = Turn(status=403, body='{"error": {"message": "not for you"}}')
    async with server(
        [refused, Turn(text="from the other", calls=(("list", {}),)), Turn(text="done")]
    ) as fake:
        done = await run(*at(fake, name), "--fallback-model", f"{provider}/other")
        assert [request.body["model"] for request in fake.requests] == [
            name.partition("/")[2],
            "other",
            "other",
        ]
    assert done["code"] == 0
    (notice,) = (event for event in done["events"] if event.get("code") == "model.fallback")
    assert ": not for you; " in notice["text"]
    assert notice["text"].endswith(f"; continuing with {provider}/other")


async def test_a_budget_of_dollars_is_refused_where_no_price_is_known(run: Run) -> None:
    async with openai_server([Turn(text="ok")]) as fake:
        with pytest.raises(
            ConfigError,
            match="no price is known for openai/fake, so a budget of \\$2 would limit nothing",
        ):
            await run(*at(fake), "--budget", "2")
        assert fake.requests == []


@pytest.mark.parametrize("more", ["", "cache_read = 1"])
async def test_a_price_of_the_users_is_counted_and_limits(run: Run, more: str) -> None:
    """1,000 tokens in, 700 of them cached, and 20 out."""
    turn = Turn(calls=(("list", {}),), usage={"input": 1000, "output": 20, "cache_read": 700})
    config = f'[prices."openai/fake"]\ninput = 10\noutput = 50\n{more}\n'
    cost = (300 * 10 + 700 * (1 if more else 10) + 20 * 50) / 1_000_000
    async with openai_server([turn, turn, Turn(text="never asked")]) as fake:
        done = await run(*at(fake), "--budget", str(cost * 2.5), config=config)
        assert len(fake.requests) == 2
    assert done["code"] == 3
    assert done["events"][-1]["usage"]["cost_usd"] == pytest.approx(2 * cost)


async def test_a_wrong_price_is_told_with_its_place(run: Run, folders: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"config.toml:2: prices.x.inptu: no such setting; did you mean"
    ):
        await run("--model", "x", config="[prices.x]\ninptu = 1\noutput = 2\ninput = 1\n")


@pytest.mark.parametrize("name", ["openai/fake", CLAUDE])
async def test_an_answer_that_repeats_itself_is_stopped_and_what_it_used_counts(
    run: Run, name: str
) -> None:
    server = openai_server if name == "openai/fake" else anthropic_server
    counting = Turn(text="Counting: " + "1/" * 2000, stall=True)
    async with server([counting], chunk=4096, delay=0.01) as fake:
        done = await run(*at(fake, name))
        await asyncio.wait_for(fake.client_left.wait(), 20)
        assert len(fake.requests) == 1
    assert done["code"] == 1
    (turn,) = (event for event in done["events"] if event["type"] == "turn.finished")
    assert (turn["stop"], turn["usage"]["estimated"]) == ("cut", True)
    assert 500 < turn["usage"]["output_tokens"] < 4000 and turn["usage"]["input_tokens"] > 0
    assert (turn["usage"]["cost_usd"] or 0) > 0 or name == "openai/fake"
    kept = [event["message"] for event in done["events"] if event["type"] == "message.added"][-1]
    assert kept["text"].startswith("Counting: 1/1/") and kept["stop"] == "cut"
    end = done["events"][-1]
    assert end["usage"] == turn["usage"]
    assert end["error"].startswith("the answer repeats “1/”, so far for about ")
    assert "limits.max_repeated_tokens" in end["error"]


async def test_how_long_an_answer_may_repeat_itself_is_a_setting(run: Run) -> None:
    async with openai_server([Turn(text="1/" * 2000)] * 2) as fake:
        done = await run(*at(fake), config="[limits]\nmax_repeated_tokens = 100000\n")
        assert (done["code"], done["events"][-1]["text"]) == (0, "1/" * 2000)
        assert (await run(*at(fake), config="[limits]\nmax_repeated_tokens = 3000\n"))["code"] == 1
