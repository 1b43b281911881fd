"""Pictures of scenes at every size; scenes that go on from each other come from one start of the
app."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from textual.app import App
from textual.pilot import Pilot

Size = tuple[int, int]
"""Columns and rows."""
SIZES: tuple[Size, ...] = ((80, 24), (120, 40))
Play = Callable[[Pilot[None]], Awaitable[None]]
"""Brings a running app into the state of a scene."""


class Pictured(Protocol):
    """What an album needs to know of a scene."""

    @property
    def after(self) -> str:
        """The scene whose app goes on with this one; empty where it has a start of its own."""

    @property
    def at_each_size(self) -> bool:
        """What its keys do depends on the size: they are pressed again once the terminal was
        resized."""


S = TypeVar("S", bound=Pictured)


class Album(Generic[S]):
    """Takes the pictures of `scenes` when one of them is first asked for.

    `start` makes the app of a scene, with its files below the folder; `play` says how that app gets
    into its state.
    """

    def __init__(
        self,
        scenes: Mapping[str, S],
        start: Callable[[S, Path], App[None]],
        play: Callable[[S], Play],
        sizes: tuple[Size, ...] = SIZES,
    ) -> None:
        self._scenes = scenes
        self._start = start
        self._play = play
        self._sizes = sizes
        self._pictures: dict[tuple[str, Size], str] = {}

    def of(self, name: str, folder: Path) -> "Photographed":
        """That scene, to be given to `snap_compare`."""
        if (name, self._sizes[0]) not in self._pictures:
            self._take(self._story(name), folder)
        return Photographed({size: self._pictures[name, size] for size in self._sizes})

    def _story(self, name: str) -> list[str]:
        """All scenes that share a start with that one, in their order."""
        while self._scenes[name].after:
            name = self._scenes[name].after
        story = [name]
        while following := [
            other for other, scene in self._scenes.items() if scene.after == story[-1]
        ]:
            story += following
        return story

    def _take(self, story: list[str], folder: Path) -> None:
        """Every other scene begins at the last size, so that terminals become both larger and
        smaller."""
        app = self._start(self._scenes[story[0]], folder)

        async def photograph(pilot: Pilot[None]) -> None:
            order = list(self._sizes)
            for name in story:
                scene = self._scenes[name]
                await self._play(scene)(pilot)
                for size in order:
                    if app.size != size:
                        await pilot.resize_terminal(*size)
                        while app.screen.size != size:  # a slow machine draws later
                            await pilot.pause()
                        if scene.at_each_size:
                            await self._play(scene)(pilot)
                    await pilot.pause()
                    await pilot.wait_for_scheduled_animations()
                    await pilot.pause()
                    self._pictures[name, size] = app.export_screenshot(
                        title=app.title, simplify=True
                    )
                order.reverse()
            app.exit()

        app.run(headless=True, auto_pilot=photograph, size=self._sizes[0])


class Photographed(App[str]):
    """An app that ran already: where `snap_compare` runs it at a size, it gives the picture that
    was taken at that."""

    def __init__(self, pictures: Mapping[Size, str]) -> None:
        super().__init__()
        self._pictures = pictures

    def run(self, *, size: Size, **_: Any) -> str:  # type: ignore[override]  # with what `snap_compare` gives
        return self._pictures[size]
