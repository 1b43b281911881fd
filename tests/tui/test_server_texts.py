"""What servers offer a prompt is completed where it is typed, as files and commands are."""

from pathlib import Path

from codeagent.core.runtime import OfferedText
from tests.tui.fake_servers import GIT, Book
from tests.tui.replay import ReplayApp, until

GUIDE = OfferedText("docs:file:///guide.md", "The guide")
REVIEW = OfferedText("github:review", "Review a pull request", (("pr", "its number"), ("tone", "")))


def offered(*servers: OfferedText) -> Book:
    book = Book(GIT)
    book.resources = tuple(text for text in servers if "://" in text.name)
    book.prompts = tuple(text for text in servers if "://" not in text.name)
    return book


async def test_a_resource_is_completed_behind_the_at_sign_and_a_prompt_with_its_arguments(
    tmp_path: Path,
) -> None:
    app = ReplayApp([], tmp_path, now=0.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.settled)
        composer, agent = app.chat.composer, app.clients[-1].agent
        agent.servers = offered(GUIDE, REVIEW)
        await pilot.press("@", *"guide")
        await until(pilot, lambda: composer.choices.chosen is not None)
        await pilot.press("tab")
        assert composer.text == "@docs:file:///guide.md "
        composer.clear()
        await pilot.press("/", *"rev")
        await until(pilot, lambda: composer.choices.chosen is not None)
        assert composer.choices.chosen is not None and composer.choices.chosen.about == REVIEW.about
        await pilot.press("tab", "p")
        await until(pilot, lambda: composer.choices.is_open)
        await pilot.press("tab", "7")
        assert composer.text == "/github:review pr=7"
        agent.servers = offered(GUIDE)
        await pilot.press("enter")
        await until(pilot, lambda: composer.is_blank)
        assert app.chat.state.status.now.screen.notice == ""
        await pilot.press("/", *"rev")
        await until(pilot, lambda: all(row.name != REVIEW.name for row in composer.commands))
    assert app.crash is None
