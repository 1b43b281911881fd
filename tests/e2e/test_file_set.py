"""The set of further file tools through the product: off until asked for, judged like any other
tool, and undone."""

import json

from codeagent.app.runtime import open_session
from codeagent.config.checking import checked
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.acts import Restore
from tests.e2e.product import Product, calls, of, read, results, say
from tests.e2e.test_agents_run import agent, describe
from tests.fakes import put

PATCH = """*** Begin Patch
*** Add File: new.txt
+new
*** Update File: a.txt
*** Move to: moved/b.txt
@@
-one
+ONE
*** Delete File: old.txt
*** End Patch"""
SETTINGS = '[toolsets]\noffer = ["files"]\n'


async def test_a_patch_that_added_moved_and_deleted_files_is_undone(product: Product) -> None:
    put(product.workspace, "a.txt", "one\ntwo\n")
    put(product.workspace, "old.txt", "gone\n")
    model = product.script(
        calls(("toolset_use", {"name": "files"}), read("a.txt"), read("old.txt")),
        calls(("apply_patch", {"patch": PATCH})),
        say("done"),
    )
    local = LocalEnvironment(
        product.workspace, product.home / "state" / "codeagent", product.environment
    )
    settings = checked(
        Settings,
        {
            "model": model,
            "mode": "auto",
            "sandbox": {"kind": "off"},
            "toolsets": {"offer": ["files"]},
        },
    )
    runtime = await open_session(
        settings, local, resume=None, tell=print, observer=lambda event: None, attended=True
    )

    def files() -> dict[str, str]:
        found = (path for path in product.workspace.rglob("*") if path.is_file())
        return {str(path.relative_to(product.workspace)): path.read_text() for path in found}

    before = files()
    try:
        async for _ in runtime.agent.run("go"):
            pass
        assert files().items() ^ before.items() == {
            ("new.txt", "new\n"),
            ("moved/b.txt", "ONE\ntwo\n"),
            ("a.txt", "one\ntwo\n"),
            ("old.txt", "gone\n"),
        }
        rewind = runtime.agent.rewind
        assert rewind is not None
        assert await runtime.agent.finish(Restore(rewind.points()[0].id, "undo")) is None
        assert files() == before
    finally:
        await runtime.close()


def test_a_run_asks_for_the_set_and_its_tools_are_judged_like_any_other(product: Product) -> None:
    put(product.home, "config/codeagent/config.toml", SETTINGS)
    put(product.workspace, "p.json", '{"a": 1}\n')
    put(product.workspace, "src/a.txt", "one\n")
    model = product.script(
        calls(("toolset_list", {}), ("toolset_use", {"name": "files"})),
        calls(
            ("json_read", {"path": "p.json"}), read("src/a.txt"), ("glob", {"patterns": ["*.txt"]})
        ),
        calls(
            ("json_write", {"path": "p.json", "set": {"/a": 2}}),
            (
                "multi_edit",
                {"edits": [{"path": "src/a.txt", "old_string": "one", "new_string": "two"}]},
            ),
        ),
        say("done"),
    )
    done = product.run(model, "--output", "jsonl", "--allow", "edit(src/**)")
    found = {result["name"]: result for result in results(done.events)}
    assert "files (off, 6 tools)" in found["toolset_list"]["content"][0]["text"]
    assert found["multi_edit"]["rule"] == "edit(src/**)"
    assert (product.workspace / "src/a.txt").read_text() == "two\n"
    assert found["json_write"]["error"]["kind"] == "denied"
    assert json.loads((product.workspace / "p.json").read_text()) == {"a": 1}
    assert of(done.events, "run.finished")[0]["reason"] == "denied"


def test_a_tool_of_a_set_waits_for_its_documentation_if_that_is_required(product: Product) -> None:
    put(
        product.home,
        "config/codeagent/config.toml",
        '[toolsets]\nuse = ["files"]\nrequire_info = true\n',
    )
    put(product.workspace, "p.json", '{"a": 1}\n')
    look = ("json_read", {"path": "p.json", "at": "/a"})
    model = product.script(
        calls(look, read("p.json")),
        calls(("info", {"name": "json_read"})),
        calls(look),
        say("done"),
    )
    done = product.run(model, "--output", "jsonl")
    first, allowed, info, second = results(done.events)
    assert first["error"]["kind"] == "skipped"
    assert 'info(name="json_read")' in first["content"][0]["text"]
    assert not first["executed"]
    assert (allowed["is_error"], info["is_error"], second["content"][0]["text"]) == (
        False,
        False,
        "1",
    )
    again = product.run(product.script(calls(look), say("done")), "--continue", "--output", "jsonl")
    assert results(again.events)[-1]["content"][0]["text"] == "1"


def test_a_call_that_had_to_wait_for_its_documentation_is_no_repeat_of_itself(
    product: Product,
) -> None:
    put(
        product.home,
        "config/codeagent/config.toml",
        '[toolsets]\nuse = ["files"]\nrequire_info = true\n',
    )
    put(product.workspace, "p.json", '{"a": 1}\n')
    look, info = ("json_read", {"path": "p.json", "at": "/a"}), ("info", {"name": "json_read"})
    done = product.run(
        product.script(calls(look), calls(look, info), calls(look), say("done")),
        "--output",
        "jsonl",
    )
    kinds = [result["error"] and result["error"]["kind"] for result in results(done.events)]
    assert kinds == ["skipped", "skipped", None, None] and done.code == 0


def test_a_child_reads_the_documentation_itself_whether_or_not_its_file_lists_info(
    product: Product,
) -> None:
    put(
        product.home,
        "config/codeagent/config.toml",
        '[toolsets]\nuse = ["files", "agents"]\nrequire_info = true\n',
    )
    put(product.workspace, "p.json", '{"a": 1}\n')
    about, look = ("info", {"name": "json_read"}), ("json_read", {"path": "p.json", "at": "/a"})
    for name, tools, turns in (
        ("careful", "info, json_read", [calls(look), calls(about), calls(look), say("read")]),
        ("narrow", "json_read", [calls(look), calls(about), calls(look), say("read")]),
    ):
        describe(product, name, product.script(*turns), f"tools: {tools}")
    model = product.script(
        calls(about, ("info", {"name": "agent"})),
        calls(look),
        calls(agent("careful")),
        calls(agent("narrow")),
        say("ok"),
    )
    events = product.run(model, "--yes", "--output", "jsonl").events
    ended = [
        (event["agent"], event["error"] and event["error"]["kind"]) for event in results(events)
    ]
    for child in ("careful.1", "narrow.2"):
        assert [kind for who, kind in ended if who == child] == ["skipped", None, None]


def test_a_child_changes_files_only_as_it_read_them_itself(product: Product) -> None:
    put(product.home, "config/codeagent/config.toml", '[toolsets]\nuse = ["files", "agents"]\n')
    put(product.workspace, "a.txt", "one\n")
    edit = ("multi_edit", {"edits": [{"path": "a.txt", "old_string": "one", "new_string": "two"}]})
    child = product.script(calls(edit), calls(read("a.txt")), calls(edit), say("changed"))
    describe(product, "maker", child)
    model = product.script(calls(read("a.txt")), calls(agent("maker")), say("ok"))
    events = product.run(model, "--yes", "--output", "jsonl").events
    first, _, second = [event for event in results(events) if event["agent"] == "maker.1"]
    assert "a.txt was not read in this session" in first["error"]["message"]
    assert second["error"] is None
    assert (product.workspace / "a.txt").read_text() == "two\n"


def test_a_narrowed_tool_of_a_child_knows_what_the_child_has_read_and_nothing_else(
    product: Product,
) -> None:
    put(product.home, "config/codeagent/config.toml", '[toolsets]\nuse = ["agents"]\n')
    put(product.home, "config/codeagent/tools/edit.yaml", "name: edit\nbuiltin: true\n")
    put(product.workspace, "a.txt", "one\n")
    change = (
        "edit",
        {"path": "a.txt", "old_string": "one", "new_string": "two", "replace_all": True},
    )
    child = product.script(calls(change), calls(read("a.txt")), calls(change), say("changed"))
    describe(product, "maker", child)
    model = product.script(calls(read("a.txt")), calls(agent("maker")), calls(change), say("ok"))
    events = product.run(model, "--yes", "--output", "jsonl").events
    unread, _, changed = [event for event in results(events) if event["agent"] == "maker.1"]
    assert unread["error"] is not None and changed["error"] is None
    (stale,) = [
        event for event in results(events) if (event["agent"], event["name"]) == ("main", "edit")
    ]
    assert "changed" in stale["error"]["message"]
