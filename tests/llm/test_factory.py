"""From a name to a model, without loading what the name does not need."""

import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.llm.factory import Wire, lane, open_model
from tests.llm.asking import ask
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
