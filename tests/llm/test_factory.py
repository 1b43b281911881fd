"""From a name to a model, without loading what the name does not need."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError, ModelError
from codeagent.core.model import Model, ModelEvent, ModelRequest
from codeagent.llm.factory import ModelOptions, Wire, lane, open_model
from codeagent.llm.retry import ModelWrapper
from tests.llm.asking import ask
from tests.servers import Turn, openai_server
from tests.table import for_each


async def test_a_script_is_named_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('[{"error": {"status": 529}}, {"text": "ok"}]')
    model = open_model(f"script:{file}")
    assert model.name == f"script:{file}"
    heard = await ask(model)
    assert [retry.attempt for retry in heard.retries] == [2]
    assert heard.text == "ok"


def test_a_bad_script_shows_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        open_model(f"script:{tmp_path / 'none.json'}")


async def test_what_is_wrapped_around_a_model_is_asked_in_its_place_the_last_first(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.json"
    file.write_text('[{"text": "ok"}]')
    asked: list[str] = []

    class Noting(ModelWrapper):
        def __init__(self, inner: Model, name: str) -> None:
            super().__init__(inner)
            self._noted = name

        def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            asked.append(self._noted)
            return self._inner.stream(request)

    wraps = [lambda model, learned, name=name: Noting(model, name) for name in ("in", "out")]
    model = open_model(f"script:{file}", options=ModelOptions(wraps))
    assert ((await ask(model)).text, asked) == ("ok", ["out", "in"])


async def test_a_refusal_of_tools_is_an_error_for_a_model_that_nothing_is_wrapped_around() -> None:
    said = '{"error": {"message": "x does not support tools"}}'
    async with openai_server([Turn(status=400, body=said)]) as server:
        model = open_model("openai/fake", api_base=server.base_url, api_key="k")
        with pytest.raises(ModelError, match="does not support tools"):
            await ask(model)
        await model.close()
    assert len(server.requests) == 1


def test_the_demo_has_a_name() -> None:
    assert open_model("demo").name == "demo"


@for_each(
    ("name", "api_base", "wire", "taken"),
    [
        ("openai/gpt-5-mini", None, "auto", "native"),
        ("anthropic/claude-sonnet-4-5", None, "auto", "native"),
        ("claude-sonnet-4-5", None, "auto", "native"),
        ("qwen3", "http://127.0.0.1:8080/v1", "auto", "native"),
        ("gemini/gemini-2.5-flash", None, "auto", "litellm"),
        ("bedrock/anthropic.claude-3-sonnet", None, "auto", "litellm"),
        ("no-such-model", None, "auto", "litellm"),
        ("openai/gpt-5-mini", None, "litellm", "litellm"),
    ],
)
def test_a_model_takes_the_lane_without_litellm_if_it_can_and_may(
    name: str, api_base: str | None, wire: Wire, taken: str
) -> None:
    assert lane(name, api_base, None, wire) == taken


@pytest.mark.parametrize(("name", "client"), [("openai/x", {"pycurl"}), ("gemini/x", set())])
def test_a_lane_loads_only_its_own_client_and_litellm_not_before_a_request(
    name: str, client: set[str]
) -> None:
    code = (
        "import sys; from codeagent.llm.factory import Wire, lane, open_model; print(open_model(sys.argv[1]).name);"
        " print(sorted({'litellm', 'openai', 'httpx', 'aiohttp', 'pycurl'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == [name, str(sorted(client))]
