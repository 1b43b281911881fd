"""Reads that begin while their answer is still coming, through the real command line."""

import json
from pathlib import Path

import pytest

from codeagent.agent.calls import PreparedCall
from codeagent.app.describe import describe_tools
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.messages import ToolCall
from codeagent.tools.arguments import parse_arguments
from codeagent.workspace.files import LocalWorkspace
from tests.e2e.product import Event, Product, calls, say
from tests.fakes import put


def asked(events: list[Event]) -> list[Event]:
    """Return the events from the first call to the message that holds it."""
    first = next(at for at, event in enumerate(events) if event["type"] == "tool.call")
    last = next(
        at for at, event in enumerate(events) if event["type"] == "message.added" and at > first
    )
    return events[first:last]


@pytest.mark.parametrize("config", ["", "early_reads = false\n"])
def test_reads_begin_before_their_answer_is_complete_unless_the_settings_say_otherwise(
    product: Product, config: str
) -> None:
    put(product.home, "config/codeagent/config.toml", config)
    put(product.workspace, "a.txt", "one\n")
    looks = ("read", {"path": "a.txt"}), ("search", {"pattern": "one"})
    slow = calls(*looks, ("write", {"path": "b.txt", "content": "one\n"}), ("list", {})) | {
        "delay_ms": 30
    }
    done = product.run(
        product.script(slow, say("done", expect="(?s)1\tone.*a.txt.*b.txt")),
        "--mode",
        "accept-edits",
    )
    assert (done.code, done.out) == (0, "done\n")
    begun = [event["name"] for event in asked(product.log()) if event["type"] == "tool.started"]
    assert begun == ([] if config else ["read", "search"])


READS = {
    "read": {"path": "a.txt"},
    "list": {},
    "search": {"pattern": "one"},
    "output_read": {"id": "out_1"},
    "bash": {"command": "cat a.txt"},
    "scratchpad": {"action": "list"},
}


def test_which_built_in_tools_only_read_the_workspace_or_what_was_kept_of_it(
    tmp_path: Path,
) -> None:
    """All others change something, wait, depend on their moment, or are answered by somebody
    else."""
    catalog, workspace = (
        describe_tools(LocalEnvironment(tmp_path, tmp_path / "state", {})),
        LocalWorkspace(tmp_path),
    )
    others = {
        "bash": {"command": "touch a.txt"},
        "python": {"code": "1"},
        "write": {"path": "a.txt", "content": ""},
        "edit": {"path": "a.txt", "old_string": "a", "new_string": "b"},
        "ask_user": {"question": "?"},
        "todo": {"items": []},
        "job_wait": {"id": "job_1", "timeout": 1},
        "job_list": {},
        "scratchpad": {"action": "set", "key": "a", "value": "b"},
        "search_memory": {"query": "a"},
        "git_commit": {"message": "a", "paths": ["a.txt"]},
    }
    for begins, table in ((True, READS), (False, others)):
        for name, arguments in table.items():
            tool = catalog.get(name)
            args = parse_arguments(tool, json.dumps(arguments))
            prepared = PreparedCall(ToolCall(id="c", name=name, arguments=""), tool, args)
            access = tool.access(args, workspace)
            reads = prepared.reads_here and access.mode == "shared" and access.key != ""
            assert reads == begins, (name, arguments)
