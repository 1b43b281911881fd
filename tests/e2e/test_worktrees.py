"""Agents that work in a worktree of their own, through the real command line."""

import signal
from pathlib import Path

import pytest

from tests.e2e.product import Product, bash, calls, of, results, say, text_of
from tests.e2e.test_agents_run import agent, child_log, describe, own
from tests.workspace.test_git_status import git


@pytest.fixture
def repository(product: Product) -> Path:
    """A repository with a change that was not committed, and something that git ignores."""
    root = product.workspace
    for name, text in {"a.txt": "one\n", "b.txt": "two\n", ".gitignore": "built\n"}.items():
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "a.txt").write_text("one, changed\n")
    (root / "built").write_text("by a program\n")
    return root


LOOK = calls(bash("cat a.txt b.txt"))
"""What is changed was read before."""


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, str]]:
    return "edit", {"path": path, "old_string": old, "new_string": new}


def write(path: str, text: str) -> tuple[str, dict[str, str]]:
    return "write", {"path": path, "content": text}


def left(product: Product) -> list[Path]:
    """What there is of worktrees."""
    own_files = list((product.home / "state/codeagent").glob("worktrees/*"))
    return [*own_files, *(product.workspace / ".git").glob("worktrees/*")]


def delegated(product: Product, *turns: object, after: str = "ok") -> str:
    """The model of a parent that gives one task to an agent with a worktree, which does this."""
    describe(product, "maker", product.script(LOOK, *turns), "worktree: true")  # type: ignore[arg-type]  # as the script has them
    return product.script(calls(agent("maker")), say(after))


def test_what_a_child_changed_in_its_worktree_is_taken_if_the_user_allows_it(
    product: Product, repository: Path
) -> None:
    (repository / "c.bin").write_bytes(b"\0\1")
    seen = bash("cat a.txt; ls; git status --short; git log --format=%s; pwd")
    work = calls(
        edit("a.txt", "changed", "again"),
        write("d/new.txt", "new\n"),
        bash("rm b.txt; printf 'x\\0' > c.bin"),
    )
    model = delegated(product, calls(seen), work, say("all done"))
    done = product.run(model, "--yes", "--output", "jsonl")
    assert done.code == 0, done.err
    _, look, edited, written, _ = [
        event for event in results(done.events) if event["agent"] == "maker.1"
    ]
    place = str(product.home / "state/codeagent/worktrees")
    assert (
        "one, changed" in text_of(look) and "built" not in text_of(look) and place in text_of(look)
    )
    assert " M a.txt" in text_of(look) and "first" in text_of(look)
    assert (edited["approval"], written["approval"]) == ("auto", "auto"), (
        "its files are asked about once"
    )
    (result,) = own(done.events)
    assert text_of(result) == (
        "all done\n\nTaken into the workspace: M a.txt, D b.txt, M c.bin, A d/new.txt."
    )
    assert (repository / "a.txt").read_text() == "one, again\n"
    assert (repository / "d/new.txt").read_text() == "new\n"
    assert (repository / "c.bin").read_bytes() == b"x\0"
    assert not (repository / "b.txt").exists()
    assert left(product) == []
    assert git(repository, "status", "--short").split("\n")[:2] == [" M a.txt", " D b.txt"]


def test_without_a_user_nothing_is_taken_and_the_result_names_the_diff(
    product: Product, repository: Path
) -> None:
    script = product.script(
        calls(("read", {"path": "b.txt"})), calls(edit("b.txt", "two", "three")), say("done")
    )
    describe(product, "maker", script, "isolation: worktree")
    output = ("output_read", {"id": "call_1_0-diff"})
    done = product.run(
        product.script(calls(agent("maker")), calls(output), say("ok")), "--output", "jsonl"
    )
    result, diff = own(done.events)
    assert result["error"]["kind"] == "denied"
    assert "Not taken: b.txt (there is nobody to ask" in text_of(
        result
    ) and 'id="call_1_0-diff"' in text_of(result)
    assert "-two\n" in text_of(diff) and "+three" in text_of(diff)
    assert (repository / "b.txt").read_text() == "two\n"
    assert left(product) == []


def test_a_rule_takes_what_it_matches_and_the_rest_is_left(
    product: Product, repository: Path
) -> None:
    model = delegated(
        product, calls(edit("a.txt", "one", "1"), edit("b.txt", "two", "2")), say("done")
    )
    allowed = ("--allow", "bash(cat *)", "--allow", "write(a.txt)")
    done = product.run(model, *allowed, "--output", "jsonl")
    (result,) = own(done.events)
    assert result["details"]["worktree"]["taken"] == ["a.txt"] and "Not taken: b.txt" in text_of(
        result
    )
    assert ((repository / "a.txt").read_text(), (repository / "b.txt").read_text()) == (
        "1, changed\n",
        "two\n",
    )


def test_a_change_made_meanwhile_is_a_conflict_and_nothing_is_taken(
    product: Product, repository: Path
) -> None:
    meanwhile = bash(f"echo mine > {repository}/b.txt")
    model = delegated(
        product, calls(edit("a.txt", "one", "1"), edit("b.txt", "two", "2"), meanwhile), say("done")
    )
    done = product.run(model, "--yes", "--output", "jsonl")
    (result,) = own(done.events)
    assert result["error"]["kind"] == "failed" and "changed here in the meantime: b.txt" in text_of(
        result
    )
    assert ((repository / "a.txt").read_text(), (repository / "b.txt").read_text()) == (
        "one, changed\n",
        "mine\n",
    )
    assert left(product) == []


def test_two_children_work_side_by_side_and_both_are_taken(
    product: Product, repository: Path
) -> None:
    for name in ("first", "second"):
        describe(
            product,
            name,
            product.script(calls(write(f"{name}.txt", name)), say("done")),
            "worktree: true",
        )
    product.run(product.script(calls(agent("first"), agent("second")), say("ok")), "--yes")
    assert [(repository / f"{name}.txt").read_text() for name in ("first", "second")] == [
        "first",
        "second",
    ]


def test_a_function_that_works_in_the_workspace_is_not_inherited(
    product: Product, repository: Path
) -> None:
    tools = product.home / "config/codeagent/tools"
    tools.mkdir(parents=True)
    function = 'def own() -> str:\n    """Do something."""\n    return "done"\n'
    (tools / "own.py").write_text(
        f"from codeagent import register_tool\n\n\n@register_tool\n{function}"
    )
    describe(product, "maker", product.script(calls(("own", {})), say("done")), "worktree: true")
    done = product.run(
        product.script(calls(agent("maker"), ("own", {})), say("ok")), "--yes", "--output", "jsonl"
    )
    told = {
        event["agent"]: text_of(event) for event in results(done.events) if event["name"] == "own"
    }
    assert told["main"] == "done" and told["maker.1"].startswith("Tool not found: own")


def test_the_notes_of_the_project_are_those_of_the_workspace(
    product: Product, repository: Path
) -> None:
    note = ("scratchpad", {"action": "set", "key": "k", "value": "kept", "project": True})
    look = ("scratchpad", {"action": "get", "key": "k", "project": True})
    describe(product, "maker", product.script(calls(note), say("done")), "worktree: true")
    done = product.run(
        product.script(calls(agent("maker")), calls(look), say("ok")), "--yes", "--output", "jsonl"
    )
    assert text_of(own(done.events)[-1]) == "kept"


def test_what_a_killed_process_leaves_is_swept_at_the_next_start(
    product: Product, repository: Path
) -> None:
    model = delegated(
        product, calls(bash("touch x; chmod 500 .")), {"text": "never", "delay_ms": 60_000}
    )
    process = product.start("run", "go", "--model", model, "--yes", "--sandbox", "off")
    product.wait_for(lambda events: len(results(child_log(product))) == 2)
    assert len(left(product)) == 3
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    product.run(product.script(say("hello")))
    assert left(product) == []


def test_a_stop_leaves_nothing_and_takes_nothing(product: Product, repository: Path) -> None:
    model = delegated(
        product, calls(edit("b.txt", "two", "2"), bash("exec sleep 1620")), say("never")
    )
    process = product.start("run", "go", "--model", model, "--yes", "--sandbox", "off")
    product.wait_for(lambda events: len(of(child_log(product), "tool.started")) == 3)
    process.terminate()
    process.communicate(timeout=60)
    (result,) = own(product.log())
    assert result["error"]["kind"] == "cancelled"
    assert (repository / "b.txt").read_text() == "two\n"
    assert left(product) == []


def test_a_worktree_that_cannot_be_made_starts_no_agent_and_leaves_no_session(
    product: Product, repository: Path
) -> None:
    (product.home / "state/codeagent").mkdir(parents=True)
    (product.home / "state/codeagent/worktrees").write_text("in the way")
    done = product.run(delegated(product, say("never")), "--yes", "--output", "jsonl")
    (result,) = own(done.events)
    assert "the agent maker was not started: no worktree can be made" in text_of(result)
    assert list(product.sessions[-1].glob("agents/*")) == []


def test_a_folder_without_a_repository_is_copied_too(product: Product) -> None:
    (product.workspace / "a.txt").write_text("one\n")
    done = product.run(delegated(product, calls(edit("a.txt", "one", "two")), say("done")), "--yes")
    assert done.code == 0 and (product.workspace / "a.txt").read_text() == "two\n"
    assert left(product) == []


@pytest.mark.docker
def test_a_child_has_a_container_of_its_own_in_which_git_is_read_only(
    product: Product, repository: Path
) -> None:
    look = bash(
        f"git log --format=%s; git diff --stat; ls {repository} 2>&1; touch .git/x; git commit -am x; ls"
    )
    model = delegated(product, calls(bash("echo new > n.txt"), look), say("done"))
    done = product.run_in_container(model, "--yes", "--output", "jsonl")
    assert done.code == 0, done.err
    found = [text_of(event) for event in results(done.events) if event["agent"] == "maker.1"][-1]
    assert "first" in found and "a.txt |" in found, found
    assert "n.txt" in found and "built" not in found, found
    assert "fatal" in found or "error" in found, found
    assert (repository / "n.txt").read_text() == "new\n"
    assert left(product) == [] and git(repository, "log", "--format=%s") == "first\n"
