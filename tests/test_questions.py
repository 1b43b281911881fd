"""The recorded commands of which `benchmarks.questions` counts the questions."""

import json
from pathlib import Path
from typing import Any

from benchmarks.questions import recorded_in
from tests.table import for_each


def tool_call(name: str, **arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}


def answer(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "1", "content": text}


def conversation(folder: Path, *messages: dict[str, Any]) -> Path:
    path = folder / "conversation.json"
    path.write_text(json.dumps({"messages": messages}))
    return path


@for_each(
    ("message", "after", "expected"),
    [
        (tool_call("bash", command="ls"), answer("a"), ("ls", "a", None)),
        (tool_call("Shell", cmd="ls"), answer("[exit code 2]"), ("ls", "[exit code 2]", 2)),
        (tool_call("local_shell", command=["bash", "-lc", "ls a"]), answer(""), ("ls a", "", None)),
        (tool_call("local_shell", command=["ls", "a b"]), answer(""), ("ls 'a b'", "", None)),
        (
            {"role": "assistant", "content": "Look:\n```bash\nls\n```"},
            {"role": "user", "content": "<returncode>1</returncode>\n<output>\na\n</output>"},
            ("ls", "a\n", 1),
        ),
    ],
)
def test_commands_are_found_in_every_form(
    tmp_path: Path,
    message: dict[str, Any],
    after: dict[str, Any],
    expected: tuple[str, str, int | None],
) -> None:
    (found,) = recorded_in(conversation(tmp_path, message, after)).recorded
    assert (found.text, found.output, found.code) == expected


def test_calls_of_other_tools_are_no_commands(tmp_path: Path) -> None:
    path = conversation(tmp_path, tool_call("get_weather", city="Bern"), answer("sunny"))
    assert recorded_in(path).recorded == ()


def test_a_stand_in_has_the_files_that_outputs_show(tmp_path: Path) -> None:
    path = conversation(
        tmp_path,
        tool_call("bash", command="cd /testbed && cat src/a.py"),
        answer("one\n"),
        {"role": "assistant", "content": "```bash\ncd /testbed && sed -n '3,4p' b.py\n```"},
        {"role": "user", "content": "three\n"},
        {"role": "assistant", "content": "```bash\ncat ../outside\n```"},
        {"role": "user", "content": "no\n"},
    )
    read = recorded_in(path)
    root = read.lay_out(tmp_path)
    assert (root / "src/a.py").read_text() == "one\n"
    assert (root / "b.py").read_text() == "\n\nthree\n"
    assert not (tmp_path / "outside").exists()
    assert read.turns(root)[0]["calls"] == [["bash", {"command": f"cd {root} && cat src/a.py"}]]


def test_a_command_that_needs_hosts_asks_for_the_network(tmp_path: Path) -> None:
    path = conversation(tmp_path, tool_call("bash", command="pip install toolz"), answer(""))
    (turn, _) = recorded_in(path).turns(tmp_path)
    assert turn["calls"] == [["bash", {"command": "pip install toolz", "network": True}]]
