"""From a name to a model, without loading what the name does not need."""

import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.llm.factory import open_model
from tests.llm.asking import ask


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


def test_anything_else_is_for_litellm_which_is_not_loaded_yet() -> None:
    code = (
        "import sys; from codeagent.llm.factory import open_model; print(open_model('openai/x').name);"
        " print({'litellm', 'openai', 'httpx', 'aiohttp'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["openai/x", "set()"]
