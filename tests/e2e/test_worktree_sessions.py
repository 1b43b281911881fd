"""Sessions in a worktree of their own, as their users see them."""

import json
from pathlib import Path

from tests.e2e.product import Product, calls, say
from tests.e2e.screens import ask, open_screen
from tests.workspace.test_git_status import git

TEN = "".join(f"line {number}\n" for number in range(1, 11))


def repository(product: Product) -> Path:
    root = product.workspace
    git(root, "init", "-q")
    (root / "a.txt").write_text(TEN)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "a.txt").write_text(TEN.replace("line 5", "my line 5"))
    return root


def edit(old: str, new: str) -> tuple[str, dict[str, str]]:
    return "edit", {"path": "a.txt", "old_string": old, "new_string": new}


def test_a_session_works_in_its_worktree_and_its_hunks_are_merged_back(product: Product) -> None:
    root = repository(product)
    before = git(root, "status", "--short"), git(root, "for-each-ref"), git(root, "stash", "list")
    model = product.script(
        calls(
            ("read", {"path": "a.txt"}),
            edit("line 1\n", "LINE 1\n"),
            edit("line 10", "LINE 10"),
            ("write", {"path": "new.txt", "content": "new\n"}),
        ),
        say("all changed"),
    )
    own = ("--model", model, "--mode", "accept-edits")
    with open_screen(product, "--worktree", "fix", *own, size=(80, 24)) as screen:
        screen.wait_for("worktree fix")
        ask(screen)
        screen.wait_for("all changed")
        assert (root / "a.txt").read_text() == TEN.replace("line 5", "my line 5")
        (root / "a.txt").write_text(TEN.replace("line 5", "your line 5"))
        ask(screen, "/merge")
        screen.wait_for("review all 2 files")
        screen.send("down")
        screen.wait_for("▸ a.txt")
        screen.send("enter")
        screen.wait_for("hunk 1 of 2")
        screen.wait_for("Enter applies")
        screen.send("r")
        screen.wait_for("1 of 2 hunks")
        screen.send("enter")
        screen.wait_for("review all 2 files")
        screen.send("esc")
        screen.wait_for("merged: a.txt")
        screen.send("ctrl+d")
        screen.exit_code()
        assert "of the worktree fix can be merged into" in " ".join(screen.screen())
    landed = TEN.replace("line 5", "your line 5").replace("line 10", "LINE 10")
    assert (root / "a.txt").read_text() == landed
    after = git(root, "status", "--short"), git(root, "for-each-ref"), git(root, "stash", "list")
    assert after == before

    with open_screen(product, "--continue", *own, size=(60, 20), shows="all changed") as screen:
        screen.wait_for("work…e fix")
        (root / "new.txt").mkdir()
        ask(screen, "/merge")
        screen.wait_for("review all 2 files")
        screen.send("down", "down")
        screen.wait_for("▸ new.txt")
        screen.send("enter")
        screen.wait_for("Enter applies")
        screen.send("enter")
        screen.wait_for("review all 2 files")
        screen.send("esc")
        screen.wait_for("2 files left in the worktree")
        screen.wait_for("new.txt was not merged")
    listed = product.call("worktrees", "list", "--json")
    (row,) = json.loads(listed.out)
    assert (row["name"], row["origin"], row["unmerged"]) == ("fix", str(root), 2)
    kept = product.call("worktrees", "remove", "fix")
    assert kept.code == 1 and "not merged: 2 files" in kept.err
    assert Path(row["folder"]).is_dir()
    removed = product.call("worktrees", "remove", "fix", "--discard")
    assert (removed.code, removed.out) == (0, "removed fix\n")
    assert not Path(row["folder"]).exists()
    assert git(root, "worktree", "list").count("\n") == 1


def test_without_its_extension_the_option_is_refused(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    safe = product.call("--safe", "--worktree", "fix")
    assert safe.code == 2 and "--safe switches off worktrees" in safe.err
    config.write_text('[extensions]\noff = ["worktrees"]\n')
    off = product.call("--worktree", "fix")
    assert off.code == 2 and "the extension worktrees is switched off" in off.err
    named = product.call("--worktree", "../x")
    assert named.code == 2
    assert not (product.home / "state").exists()
