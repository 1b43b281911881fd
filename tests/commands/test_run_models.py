"""`codeagent run` against providers on loopback: what its flags and keys about models put on the wire."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from codeagent.cli import build_parser, load
from tests.servers import FakeProvider, Turn, openai_server

CLAUDE = "anthropic/claude-sonnet-4-5"
Run = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Below it `config/codeagent/config.toml` is read; no key of the machine's counts."""
    for kind in ("config", "state", "data", "cache"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "CODEAGENT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config/codeagent").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    return tmp_path


@pytest.fixture
def run(folders: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """`await run(*arguments, config="")`: the exit code as `code`, the events, and standard error as `err`."""

    async def run(*arguments: str, config: str = "") -> dict[str, Any]:
        (folders / "config/codeagent/config.toml").write_text(config)
        fixed = ["run", "hi", "--sandbox", "off", "--output", "jsonl", "--cwd", str(folders / "project")]
        args = build_parser(["run"]).parse_args([*fixed, *arguments])
        capfd.readouterr()
        work: Any = load("run").main(args)
        code = await work
        captured = capfd.readouterr()
        return {"code": code, "events": [json.loads(line) for line in captured.out.splitlines()], "err": captured.err}

    return run


def at(fake: FakeProvider, name: str = "openai/fake") -> list[str]:
    return ["--model", name, "--api-base", fake.base_url]


@pytest.mark.parametrize("flag", [True, False], ids=["flag", "config"])
async def test_a_silent_provider_is_given_up_after_the_time_that_was_set(run: Run, flag: bool) -> None:
    arguments = ["--model-timeout", "0.2"] if flag else []
    async with openai_server([Turn(cut_after=0, stall=True)], repeat=True) as fake:
        done = await run(*at(fake), *arguments, config="" if flag else "[limits]\nmodel_timeout = 0.2")
    assert done["code"] == 1
    assert "openai/fake: nothing came for 0.2 s; gave up" in done["err"]
    assert "model.retry" not in str(done["events"])
