"""The gap between preview and answer: a command in the container rewrites the file that is being
asked about."""

import asyncio
from pathlib import Path

import pytest

from codeagent.app.runtime import open_session
from codeagent.config.checking import checked
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.acts import Answer, Prompt, RunShell
from codeagent.core.approval_events import ApprovalRequested
from codeagent.core.display import DiffBlock
from codeagent.core.events import RunFinished, ToolResultAdded
from codeagent.core.messages import text_of
from codeagent.core.policy import Decision
from tests.e2e.product import Product

pytestmark = pytest.mark.docker

EDIT = ["edit", {"path": "a.txt", "old_string": "second line", "new_string": "another line"}]


def place_of(product: Product) -> tuple[LocalEnvironment, Settings]:
    model = product.script(
        {"calls": [["read", {"path": "a.txt"}]]}, {"calls": [EDIT]}, {"text": "done"}
    )
    local = LocalEnvironment(
        product.workspace, product.home / "state" / "codeagent", product.environment
    )
    return local, checked(Settings, {"model": model})


async def session(
    product: Product, meanwhile: str, *decisions: Decision
) -> tuple[list[ApprovalRequested], list[ToolResultAdded]]:
    """What was asked, the first time with `meanwhile` run in the container before the answer; and
    the results."""
    local, settings = place_of(product)
    runtime = await open_session(
        settings, local, resume=None, tell=print, observer=lambda event: None, attended=True
    )
    asked: list[ApprovalRequested] = []
    results: list[ToolResultAdded] = []
    try:
        runtime.agent.do(Prompt("go"))
        async for event in runtime.agent.events():
            match event:
                case ApprovalRequested():
                    asked.append(event)
                    if len(asked) == 1:
                        await runtime.agent.finish(RunShell(meanwhile, shared=False))
                    runtime.agent.do(Answer(event.approval_id, decisions[len(asked) - 1]))
                case ToolResultAdded(name="edit"):
                    results.append(event)
                case RunFinished():
                    break
                case _:
                    pass
    finally:
        await runtime.close()
    return asked, results


def shown(question: ApprovalRequested) -> tuple[str, str]:
    block = question.blocks[0]
    assert isinstance(block, DiffBlock)
    return block.before, block.after


REWRITE = "printf 'rewritten\\nsecond line\\n' > a.txt"


async def test_the_answer_applies_nothing_and_the_new_preview_is_asked_about(
    product: Product,
) -> None:
    async with asyncio.timeout(60):
        asked, results = await session(product, REWRITE, Decision("once"), Decision("deny"))
    assert [shown(question)[0].splitlines()[0] for question in asked] == [
        "this is a.txt",
        "rewritten",
    ]
    assert asked[0].binding != asked[1].binding
    assert [result.error.kind for result in results if result.error is not None] == ["denied"]
    assert (product.workspace / "a.txt").read_text() == "rewritten\nsecond line\n"


async def test_what_the_new_preview_shows_is_what_is_applied_and_the_model_is_told(
    product: Product,
) -> None:
    async with asyncio.timeout(60):
        asked, results = await session(product, REWRITE, Decision("once"), Decision("once"))
    assert (
        shown(asked[1])[1]
        == (product.workspace / "a.txt").read_text()
        == "rewritten\nanother line\n"
    )
    assert "The file had changed since you read it" in text_of(results[0].content)


async def test_a_link_put_in_its_place_leads_nowhere(product: Product, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("this is a.txt\nsecond line\n")
    async with asyncio.timeout(60):
        _, results = await session(product, f"rm a.txt; ln -s {outside} a.txt", Decision("once"))
    assert results[0].is_error
    assert outside.read_text() == "this is a.txt\nsecond line\n"
