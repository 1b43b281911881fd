"""Tasks: their files, their keys, and the errors in them."""

import json
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.tasks import BatchTask, merged, read_tasks
from tests.table import for_each

TASK = {"repository": "there", "prompt": "go"}


def jsonl(folder: Path, *tasks: Any) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    return path


def test_json_lines_and_yaml_describe_the_same_task(tmp_path: Path) -> None:
    [one] = read_tasks(jsonl(tmp_path, TASK))
    (tmp_path / "tasks.yaml").write_text("- {repository: there, prompt: go}\n")
    [other] = read_tasks(tmp_path / "tasks.yaml")
    assert one == other
    assert one.repository == str(tmp_path / "there")


def test_a_task_wins_over_the_defaults_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.yaml"
    path.write_text(
        "defaults:\n  model: one\n  rules: {allow: [bash]}\n"
        "tasks:\n- {repository: a, prompt: go}\n- {repository: b, prompt: go, model: two, rules: {allow: [edit]}}\n"
    )
    first, second = read_tasks(path)
    assert (first.model, first.rules) == ("one", {"allow": ["bash"]})
    assert (second.model, second.rules) == ("two", {"allow": ["bash", "edit"]})


def test_the_tasks_of_a_folder_are_those_of_all_its_task_files(tmp_path: Path) -> None:
    jsonl(tmp_path, TASK)
    (tmp_path / "more.yml").write_text("- {repository: there, prompt: another}\n")
    (tmp_path / "notes.txt").write_text("not a task")
    assert [task.prompt for task in read_tasks(tmp_path)] == ["another", "go"]


def test_tasks_with_the_same_content_are_one_task(tmp_path: Path) -> None:
    assert len(read_tasks(jsonl(tmp_path, TASK, TASK, {**TASK, "prompt": "else"}))) == 2


@for_each("address", ["https://example.org/a.git", "git@example.org:a.git", "ssh://example.org/a"])
def test_the_address_of_a_repository_stays_as_it_is(address: str) -> None:
    assert BatchTask(repository=address, prompt="go").repository == address


@for_each(
    ("task", "said"),
    [
        ({"prompt": "go"}, "repository"),
        ({"repository": "there"}, "give a prompt or a recipe"),
        ({**TASK, "recipe": "fix"}, "give a prompt or a recipe"),
        ({**TASK, "repository": "https://me:a/b@host/x.git"}, "in a password as %2F"),
        ({**TASK, "promt": "go"}, "promt"),
        ({**TASK, "check_seconds": 0}, "check_seconds"),
        ({**TASK, "mode": "yolo"}, "mode"),
        ({**TASK, "keep": ["/etc/*"]}, "keep: /etc/"),
        ({**TASK, "keep": ["a/../../b"]}, "keep: a/../"),
        ({**TASK, "keep": [""]}, "keep"),
        ({**TASK, "keep": ["a/**.log"]}, r"keep: a/\*\*\.log: \*\* stands"),
        ({**TASK, "limits": {"budget": "much"}}, "limits.budget"),
        ({**TASK, "limits": {"budgte": 1}}, "limits.budgte"),
        ("go", ""),
    ],
)
def test_a_wrong_task_is_an_error_with_its_line(task: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"tasks.jsonl:2: .*{said}.*nothing was run"):
        read_tasks(jsonl(tmp_path, TASK, task))


def test_a_file_without_tasks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no tasks"):
        read_tasks(jsonl(tmp_path))


def test_the_key_depends_on_all_of_a_task_and_begins_with_its_name() -> None:
    keys = {
        BatchTask(repository="a", prompt="go").key,
        BatchTask(repository="a", prompt="go", check="make test").key,
        BatchTask(repository="a", prompt="go", limits={"max_turns": 3}).key,
        BatchTask(repository="a", prompt="go", name="../up and away").key,
    }
    assert len(keys) == 4
    assert any(key.startswith("up-and-away-") for key in keys)
    assert not any("/" in key for key in keys)


def test_the_settings_of_a_task_win_over_those_for_all_and_rules_are_added() -> None:
    task = BatchTask(
        repository="a",
        prompt="go",
        model="own",
        rules={"allow": ["edit"]},
        limits={"max_turns": 3},
        settings={"limits": {"max_calls": 4}},
    )
    assert task.settings_over(
        {"model": "common", "rules": {"allow": ["bash"], "deny": ["web"]}}
    ) == {
        "model": "own",
        "rules": {"allow": ["bash", "edit"], "deny": ["web"]},
        "limits": {"max_turns": 3, "max_calls": 4},
    }


def test_merging_changes_neither_table() -> None:
    below, over = {"a": {"b": [1]}}, {"a": {"b": [2], "c": 3}}
    assert merged(below, over) == {"a": {"b": [1, 2], "c": 3}}
    assert (below, over) == ({"a": {"b": [1]}}, {"a": {"b": [2], "c": 3}})


@for_each(
    ("repository", "address"),
    [
        ("https://me:secret@host:8443/x.git", "https://host:8443/x.git"),
        ("https://me:sec@ret@[::1]:80/x.git", "https://[::1]:80/x.git"),
        ("https://:secret@host", "https://host"),
        ("https://host/a:b@c/x.git", "https://host/a:b@c/x.git"),
        ("ssh://git@host:22/x.git", "ssh://git@host:22/x.git"),
        ("file:///there/x.git", "file:///there/x.git"),
        ("git@host:x.git", "git@host:x.git"),
    ],
)
def test_a_password_is_not_part_of_a_task(repository: str, address: str) -> None:
    task, bare = (BatchTask(repository=each, prompt="go") for each in (repository, address))
    assert (task.address, task.key, task.subject) == (address, bare.key, bare.subject)
    assert task.described() == bare.described()
