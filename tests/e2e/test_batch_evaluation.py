"""The page about evaluations: its commands are run as written, with scripted models."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.e2e.product import Product, bash, calls, say
from tests.effort import up_to

PAGE = Path(__file__).parents[2] / "docs/how-to/evaluate.md"


def instances(product: Product, number: int) -> None:
    """Make the clones of two repositories, and so many instances of SWE-bench over them."""
    lines = []
    for name in ("one", "two"):
        (folder := product.workspace / f"clones/owner__{name}").mkdir(parents=True)
        (folder / "a.txt").write_text(f"{name}\n")
        who = ("-c", "user.name=t", "-c", "user.email=t@t")
        for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
            product.call_in(folder, "git", *words)
    for at in range(number):
        repo = ("owner/one", "owner/two")[at % 2]
        folder = product.workspace / "clones" / repo.replace("/", "__")
        commit = product.call_in(folder, "git", "rev-parse", "HEAD").out.strip()
        instance = {"instance_id": f"i-{at}", "repo": repo, "base_commit": commit}
        lines.append(json.dumps(instance | {"problem_statement": f"Issue {at}."}))
    (product.workspace / "instances.jsonl").write_text("\n".join(lines))


def commands(product: Product) -> list[str]:
    """The commands of the page, with models that need no key and a check that needs no package."""
    _, text = PAGE.read_text().split("## Sixty tasks overnight\n")
    [block] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    solves = product.script(calls(bash("echo more >> a.txt")), say("solved"))
    gives_up = product.script(say("I cannot."))
    for written, used in (
        ("anthropic/claude-sonnet-4-5", solves),
        ("openai/gpt-5.2", gives_up),
        ("python3 -m pytest -q", "grep -q more a.txt"),
        ("--budget 30", "--sandbox off --budget 30"),
    ):
        assert written in block
        block = block.replace(written, used)
    program = shlex.join([sys.executable, "-m", "codeagent"])
    return [line.replace("codeagent", program, 1) for line in block.splitlines()]


@pytest.mark.soak(tried=up_to(4, 60))
def test_the_commands_of_the_page_evaluate_two_models(product: Product) -> None:
    instances(product, number := up_to(4, 60))
    said = {}
    environment = product.environment | {"PYTHONPATH": str(PAGE.parents[2])}
    for line in commands(product):
        words = ["env", *(f"{name}={value}" for name, value in environment.items())]
        done = product.call_in(product.workspace, *words, "bash", "-c", line)
        assert done.code == int("two" in line and " run " in line), done.err
        said[
            next(
                word
                for word in ("import", "plan", "run", "compare", "export")
                if f" {word} " in line
            )
        ] = done
    assert f"{number} of {number} tasks would run" in said["plan"].out
    assert f"0 of {number} passed" in said["run"].err
    assert f"one: {number} of {number} passed" in said["compare"].out
    assert f"two: 0 of {number} passed" in said["compare"].out
    lines = (product.workspace / "predictions.jsonl").read_text().splitlines()
    predictions = [json.loads(line) for line in lines]
    assert {each["instance_id"] for each in predictions} == {f"i-{at}" for at in range(number)}
    assert all("+more" in each["model_patch"] for each in predictions)
