"""The list over the composer: what is chosen is always in sight."""

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from codeagent.tui.parts.suggestions import ChoiceList, Completion


class Stand(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.choices = ChoiceList()

    def compose(self) -> ComposeResult:
        yield Static("above")
        with Vertical():
            yield self.choices
            yield Static("below")

    def on_mount(self) -> None:
        self.query_one(Static).styles.height = "1fr"
        self.query_one(Vertical).styles.height = 1


def rows(choices: ChoiceList) -> list[str]:
    return [choices.render_line(y).text.rstrip() for y in range(choices.size.height)]


def numbered(count: int) -> list[Completion]:
    return [Completion(f"choice {number}", "", "words about it") for number in range(1, count + 1)]


async def test_it_lies_above_its_place_and_says_how_many_there_are() -> None:
    app = Stand()
    async with app.run_test(size=(80, 24)) as pilot:
        app.choices.offer(numbered(20))
        await pilot.pause()
        assert app.choices.region.bottom == 23
        assert rows(app.choices)[0] == " ▸ choice 1   words about it"
        assert rows(app.choices)[-2:] == ["   choice 8   words about it", "   20 in all"]


async def test_what_is_chosen_is_in_sight_also_round_the_ends() -> None:
    app = Stand()
    async with app.run_test(size=(80, 24)) as pilot:
        app.choices.offer(numbered(20))
        await pilot.pause()
        app.choices.move(-1)
        assert rows(app.choices)[7].startswith(" ▸ choice 20")
        app.choices.move(1)
        assert rows(app.choices)[0].startswith(" ▸ choice 1 ")
        for _ in range(9):
            app.choices.move(1)
        assert rows(app.choices)[7].startswith(" ▸ choice 10")
        assert app.choices.chosen == numbered(20)[9]


async def test_in_a_narrow_screen_the_words_about_a_choice_are_left_out() -> None:
    app = Stand()
    async with app.run_test(size=(20, 5)) as pilot:
        app.choices.offer([Completion("a-name-that-is-longer-than-the-screen", "", "about")])
        await pilot.pause()
        assert rows(app.choices) == [" ▸ a-name-…e-screen"]


async def test_without_choices_only_a_footer_opens_it() -> None:
    app = Stand()
    async with app.run_test(size=(80, 24)) as pilot:
        app.choices.offer((), footer="looking for files…")
        await pilot.pause()
        assert (app.choices.is_open, app.choices.chosen) == (True, None)
        app.choices.move(1)
        app.choices.offer(())
        assert not app.choices.is_open
