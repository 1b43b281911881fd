"""Tasks are made from other sources, and SWE-bench's predictions from results."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.errors import ConfigError
from codeagent.extensions.batch.importers import KINDS, imported, predictions
from codeagent.extensions.batch.results import Results
from codeagent.extensions.batch.tasks import BatchTask, read_tasks
from tests.extensions.batch.test_results import RECORD
from tests.table import for_each

INSTANCE = {
    "instance_id": "owner__name-12",
    "repo": "owner/name",
    "base_commit": "a" * 40,
    "problem_statement": "It says {nothing}.\u2028Say something.",
    "test_patch": "not for the agent",
}


def tasks(
    kind: str, source: Path, repositories: Sequence[str] = (), check: str = ""
) -> list[dict[str, Any]]:
    """The tasks, which `read_tasks` must accept as they are."""
    made = list(imported(kind, source, repositories, check))
    file = source.with_name("made.jsonl")
    file.write_text("".join(f"{json.dumps(task, ensure_ascii=False)}\n" for task in made))
    assert len(read_tasks(file)) == len(made)
    return made


def test_an_instance_of_swe_bench_is_a_task_at_its_commit(tmp_path: Path) -> None:
    source = tmp_path / "instances.jsonl"
    source.write_text(f"{json.dumps(INSTANCE, ensure_ascii=False)}\n\n")
    [task] = tasks("swebench", source, check="pytest {name}")
    assert task["repository"] == "https://github.com/owner/name.git"
    assert (task["name"], task["commit"]) == ("owner__name-12", "a" * 40)
    assert task["prompt"].endswith("It says {nothing}.\u2028Say something.")
    assert task["check"] == "pytest owner__name-12"
    assert "not for the agent" not in json.dumps(task)
    [task] = tasks("swebench", source, [str(tmp_path / "clones")])
    assert task["repository"] == str(tmp_path / "clones/owner__name")


def test_a_track_of_exercism_has_a_task_for_each_practice_exercise(tmp_path: Path) -> None:
    for name in ("bob", "anagram"):
        folder = tmp_path / "track/exercises/practice" / name
        for inside in (".meta", ".docs"):
            (folder / inside).mkdir(parents=True)
        config = {"files": {"solution": [f"{name}.py"], "test": [f"{name}_test.py"]}}
        (folder / ".meta/config.json").write_text(json.dumps(config))
        (folder / ".docs/instructions.md").write_text(f"Write {name}.")
        (folder / ".docs/instructions.append.md").write_text("In Python.")
    first, second = tasks("exercism", tmp_path / "track", check="cd {folder} && pytest {name}")
    assert (first["name"], second["name"]) == ("anagram", "bob")
    assert "change bob.py there and nothing else" in second["prompt"]
    assert second["prompt"].endswith("Write bob.\n\nIn Python.")
    assert second["check"] == "cd exercises/practice/bob && pytest bob"
    assert second["repository"] == str(tmp_path / "track")


def test_each_recipe_is_run_in_each_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("recipes", "alpha"):
        Path(path).mkdir()
    for name in ("tidy.md", "bump.yaml", "notes.txt"):
        Path("recipes", name).write_text("Tidy up.")
    made = tasks("recipes", tmp_path / "recipes", ["alpha", "https://example.org/beta.git"])
    assert [(each["recipe"], each["repository"]) for each in made] == [
        ("bump", str(tmp_path / "alpha")),
        ("bump", "https://example.org/beta.git"),
        ("tidy", str(tmp_path / "alpha")),
        ("tidy", "https://example.org/beta.git"),
    ]
    with pytest.raises(ConfigError, match="give --repository"):
        list(imported("recipes", tmp_path / "recipes", (), ""))


@for_each("kind", KINDS)
def test_a_source_without_tasks_is_an_error(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp(kind)
    (folder / "empty.jsonl").write_text("")
    source = folder / "empty.jsonl" if kind == "swebench" else folder
    with pytest.raises(ConfigError, match=f"no tasks of the kind {kind}"):
        list(imported(kind, source, ["/there"], ""))
    with pytest.raises(ConfigError, match=r"cannot be read|no tasks of"):
        list(imported(kind, folder / "missing", ["/there"], ""))


def test_a_line_that_is_not_an_instance_is_an_error_with_its_number(tmp_path: Path) -> None:
    source = tmp_path / "instances.jsonl"
    source.write_text(f"{json.dumps(INSTANCE)}\n{json.dumps({'repo': 'a/b'})}\n")
    with pytest.raises(ConfigError, match=r"instances\.jsonl:2: .*instance_id"):
        tasks("swebench", source)


def test_a_prediction_has_the_patch_of_its_instance_or_an_empty_one(tmp_path: Path) -> None:
    results = Results(tmp_path).hold()
    for name, patch in (("owner__name-1", "diff --git\n"), ("owner__name-2", "")):
        task = BatchTask(repository="/there", prompt="go", name=name)
        folder = results.folder(task.key)
        folder.path.mkdir()
        folder.describe(task)
        if patch:
            folder.patch.write_text(patch)
        results.append(replace(RECORD, key=task.key))
    results.close()
    assert list(predictions(Results(tmp_path).read())) == [
        {"instance_id": "owner__name-1", "model_name_or_path": "m", "model_patch": "diff --git\n"},
        {"instance_id": "owner__name-2", "model_name_or_path": "m", "model_patch": ""},
    ]


def test_the_error_about_too_long_yaml_recommends_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    for lines in (3_000, 8_000):
        file.write_text("- {repository: alpha, prompt: go on}\n" * lines)
        with pytest.raises(ConfigError, match=r"in a \.jsonl file, has no such limit"):
            read_tasks(file)
    made = ({"repository": "alpha", "prompt": f"task {number}"} for number in range(8_000))
    other = tmp_path / "tasks.jsonl"
    other.write_text("".join(f"{json.dumps(task)}\n" for task in made))
    assert len(read_tasks(other)) == 8_000
