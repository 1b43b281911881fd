"""Which protocol a model gets, as data: known before any of them is needed."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

Body = Literal["json", "name and arguments"]
"""What stands between the marks of `delimited`."""
ProtocolName = Literal["json", "xml", "hermes", "delimited"]


@dataclass(frozen=True)
class ProtocolChoice:
    """What the models of one pattern speak."""

    model: str
    """Glob over the model's name."""
    protocol: ProtocolName | Literal["native"]
    opening: str = ""
    closing: str = ""
    """The marks of `delimited`."""
    body: Body = "json"


@dataclass(frozen=True)
class TextTools:
    """How models that are not native are told about tools."""

    choices: tuple[ProtocolChoice, ...] = ()
    """The first that matches holds."""
    when_refused: Literal["json", "xml", "hermes"] = "json"
    """For a model without a choice, once its provider refused native tools."""

    def choice(self, model: str) -> ProtocolChoice | None:
        return next((choice for choice in self.choices if fnmatchcase(model, choice.model)), None)
