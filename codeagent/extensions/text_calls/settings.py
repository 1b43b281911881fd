"""The section `text_tools` of the settings."""

from fnmatch import fnmatchcase
from typing import Literal

from codeagent.config.settings import Name, Section
from codeagent.core.dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class TextToolSetting(Section):
    """How the models of one pattern are told about tools."""

    model: Name
    """Glob over the model's name as it is given to `--model`."""
    protocol: Literal["native", "json", "xml", "hermes", "bracket", "tags", "delimited"]
    open: str = ""
    close: str = ""
    """What encloses a call; only for `delimited`, which needs both. In body `lines`, `{name}` is
    the tool's name."""
    body: Literal["json", "name and arguments", "lines"] = "json"
    """What is between them; for `delimited` only."""

    def __post_init__(self) -> None:
        if self.protocol == "delimited" and not (self.open.strip() and self.close.strip()):
            raise ValueError("delimited needs open and close")
        if self.protocol != "delimited" and (self.open or self.close or self.body != "json"):
            raise ValueError("open, close and body are for delimited only")
        if self.body == "lines":
            from codeagent.core.coercion import (
                only_in_strings,
            )  # few configurations have marks of their own

            if not all(
                only_in_strings(mark.replace("{name}", "")) for mark in (self.open, self.close)
            ):
                raise ValueError("with body lines, each mark needs a character such as / or <")


@dataclass(frozen=True, kw_only=True)
class TextToolSettings(Section):
    """Models without native tool calls; see docs/how-to/text-tools.md."""

    when_refused: Literal["json", "xml", "hermes"] = "json"
    """What a model speaks once its provider has refused native calls."""
    models: tuple[TextToolSetting, ...] = ()
    """The first pattern that matches applies."""

    def choice(self, model: str) -> TextToolSetting | None:
        """Return how this model is told about tools; None if no pattern says."""
        return next((one for one in self.models if fnmatchcase(model, one.model)), None)
