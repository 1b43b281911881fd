"""litellm's table is read as data, from an index in the cache folder that is always right or made
again."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codeagent.llm import catalog, litellm_model
from codeagent.llm.catalog import context_window, entry, has_price, routed_provider
from tests.table import for_each


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the index is kept; nothing is remembered from other tests, nor for them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    catalog._entry.cache_clear()
    yield tmp_path / "codeagent" / "models.index"
    catalog._entry.cache_clear()


def again(name: str) -> Any:
    catalog._entry.cache_clear()
    return entry(name)


@pytest.mark.xdist_group("litellm")
def test_every_model_has_the_entry_that_litellm_has() -> None:
    known = litellm_model._import().model_cost
    assert len(known) > 3_000
    catalog._entry.cache_clear()
    assert [name for name in known if entry(name) != known[name]] == []


def test_the_window_and_the_price_are_known_with_and_without_the_provider() -> None:
    assert (
        context_window("anthropic/claude-sonnet-4-5")
        == context_window("claude-sonnet-4-5")
        == 200_000
    )
    assert (
        has_price("anthropic/claude-sonnet-4-5")
        and has_price("claude-sonnet-4-5")
        and has_price("demo")
    )
    assert context_window("nobody/knows") is None and not has_price("nobody/knows")


@for_each(
    "name", ["", "\x00", "fallback_generalizations", "a" * 10_000, "\n", "gpt-5\t", "zzz/zzz", "ü"]
)
def test_a_name_that_no_model_has_is_not_found(name: str) -> None:
    assert entry(name) == {}


def test_a_new_claude_is_anthropics() -> None:
    assert (
        routed_provider("claude-newfamily-9-9") == "anthropic" and routed_provider("qwen3") is None
    )


def test_litellm_is_not_imported_for_it() -> None:
    code = (
        "import sys; from codeagent.llm.catalog import context_window;"
        " print(context_window('gpt-5'), {'litellm', 'openai', 'httpx', 'tiktoken', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "272000 set()"


def test_the_index_is_made_once_and_for_its_owner_alone(index: Path) -> None:
    first = entry("gpt-5")
    assert index.stat().st_mode & 0o777 == 0o600 and index.parent.stat().st_mode & 0o777 == 0o700
    made = index.stat()
    assert again("gpt-5") == first and index.stat().st_mtime_ns == made.st_mtime_ns
    assert index.stat().st_ino == made.st_ino


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:200] + bytes(len(data) - 200),
        lambda data: data.partition(b"\n")[0] + b"\n" + b"x" * (len(data) - data.index(b"\n") - 1),
        lambda data: data.replace(b'": {"', b'": ["').replace(b"\t{", b"\t["),
        lambda data: data.replace(b"\t", b" "),
    ],
    ids=["empty", "cut", "zeroed", "one line", "no JSON", "no columns"],
)
def test_a_damaged_index_is_made_again(index: Path, damage: Any) -> None:
    first = entry("gpt-5")
    good = index.read_bytes()
    index.write_bytes(damage(good))
    assert again("gpt-5") == first and index.read_bytes() == good


def test_an_index_of_another_table_is_made_again(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table.json"
    monkeypatch.setattr(catalog, "_table", lambda: table)
    for price in (1, 2):
        table.write_text(
            json.dumps({"gpt-5": {"input_cost_per_token": price, "aliases": ["five"]}})
        )
        os.utime(table, ns=(0, price))
        assert (
            again("gpt-5")["input_cost_per_token"] == again("five")["input_cost_per_token"] == price
        )


def test_without_a_place_for_the_index_the_table_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert again("gpt-5")["litellm_provider"] == "openai"


def test_a_link_in_place_of_the_index_is_replaced_and_never_followed(
    index: Path, tmp_path: Path
) -> None:
    entry("gpt-5")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(index.read_bytes().replace(b"gpt", b"xxx"))
    index.unlink()
    index.symlink_to(elsewhere)
    assert again("gpt-5")["litellm_provider"] == "openai" and not index.is_symlink()


def test_without_litellm_nothing_is_known(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert again("gpt-5") == {} and not index.exists()
