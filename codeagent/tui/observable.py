"""What models of the screen have in common: they say that they changed."""

from collections.abc import Callable


class Observable:
    """A model that tells whoever watches it that it changed."""

    def __init__(self) -> None:
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call it after every change, from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call it no more."""
        self._watchers.remove(watcher)

    def _changed(self) -> None:
        for watcher in self._watchers:
            watcher()
