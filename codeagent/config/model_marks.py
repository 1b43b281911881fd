"""The models that the user marked as favourites, and those chosen last, in a small file in the
state folder."""

import json
from pathlib import Path

from codeagent.config.checking import WrongValue, as_given, checked
from codeagent.core.dataclass import record
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.disk.locks import locked
from codeagent.disk.private import UnsafeFile, read_private, replace_private

_MOST_RECENT = 8


@record
class MarkedModel:
    """A model, and where it is."""

    name: str
    api_base: str | None = None
    """The address of the user's own server; None for its provider's."""


@record
class ModelMarks:
    """Each in the order in which it is shown."""

    favourites: tuple[MarkedModel, ...] = ()
    recent: tuple[MarkedModel, ...] = ()


class ModelMarksFile:
    """Several processes may share it: every change reads the file again, under a lock.

    Every method blocks. If the file is damaged or cannot be written, it is left as it is, and
    ConfigError is raised.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> ModelMarks:
        try:
            raw = read_private(self.file)
            return ModelMarks() if raw is None else checked(ModelMarks, json.loads(raw))
        except UnsafeFile as error:
            raise ConfigError(f"{error}; no model is marked") from error
        except (WrongValue, ValueError, RecursionError) as error:
            said = one_line(str(error), 80)
            raise ConfigError(
                f"{self.file} is damaged ({said}), so no model is marked: repair or remove it"
            ) from error

    def toggle(self, model: MarkedModel) -> ModelMarks:
        """Add the model to the favourites, or remove it; return the new marks."""
        return self._change(model, favourite=True)

    def use(self, model: MarkedModel) -> ModelMarks:
        """Record the model as the one chosen last; return the new marks."""
        return self._change(model, favourite=False)

    def _change(self, model: MarkedModel, *, favourite: bool) -> ModelMarks:
        try:
            with locked(self.file.with_suffix(".lock")):
                marks = _changed(self.read(), model, favourite=favourite)
                replace_private(self.file, json.dumps(as_given(marks)).encode())
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be changed ({error.strerror})") from error
        return marks


def _changed(marks: ModelMarks, model: MarkedModel, *, favourite: bool) -> ModelMarks:
    before = marks.favourites if favourite else marks.recent
    others = tuple(each for each in before if each != model)
    if not favourite:
        return ModelMarks(favourites=marks.favourites, recent=(model, *others)[:_MOST_RECENT])
    after = others if model in before else (*before, model)
    return ModelMarks(favourites=after, recent=marks.recent)
