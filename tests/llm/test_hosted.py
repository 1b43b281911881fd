"""What is said of hosted models before litellm is there is what litellm says."""

import json
import os
import subprocess
import sys

import pytest

from codeagent.llm.hosted import _KEYS, OFFERED, calls_tools, context_window, key_variables


@pytest.mark.parametrize("name", OFFERED)
def test_what_is_offered_exists_calls_tools_and_needs_a_known_key(name: str) -> None:
    assert calls_tools(name) and (context_window(name) or 0) >= 100_000
    assert key_variables(name, None)


def test_the_variables_are_those_litellm_looks_for() -> None:
    names = [f"{provider}/some-model" for provider in _KEYS]
    code = (
        "import json, sys, litellm\n"
        "print(json.dumps({n: litellm.validate_environment(n)['missing_keys'] for n in json.loads(sys.argv[1])}))"
    )
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(names)],
        capture_output=True,
        text=True,
        check=True,
        env=clean | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    missing = json.loads(done.stdout.splitlines()[-1])
    assert {name: set(key_variables(name, None)) for name in names} == {name: set(missing[name]) for name in names}


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("claude-sonnet-4-5", ("ANTHROPIC_API_KEY",)),
        ("gpt-5", ("OPENAI_API_KEY",)),
        ("ollama/qwen3", ()),
        ("nobody/knows", ()),
        ("unheard-of", ()),
        ("demo", ()),
        ("script:x.json", ()),
    ],
)
def test_a_well_known_name_alone_is_enough_and_local_ones_need_no_key(name: str, variables: tuple[str, ...]) -> None:
    assert key_variables(name, None) == variables


def test_a_server_of_ones_own_is_asked_without_a_key() -> None:
    assert key_variables("openai/gpt-5", "http://127.0.0.1:8080/v1") == ()


def test_the_window_is_known_with_and_without_the_provider() -> None:
    assert context_window("anthropic/claude-sonnet-4-5") == context_window("claude-sonnet-4-5") == 200_000
    assert context_window("nobody/knows") is None


def test_litellm_is_not_imported_for_it() -> None:
    code = (
        "import sys; from codeagent.llm.hosted import context_window;"
        " print(context_window('gpt-5'), 'litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "272000 False"
