"""The protocols by name, and which one a model gets."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, assert_never

from codeagent.llm.protocols.delimited_protocol import Body, DelimitedProtocol
from codeagent.llm.protocols.hermes_protocol import HermesProtocol
from codeagent.llm.protocols.json_protocol import JsonProtocol
from codeagent.llm.protocols.protocol import TextProtocol
from codeagent.llm.protocols.xml_protocol import XmlProtocol

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


def protocol_of(choice: ProtocolChoice) -> TextProtocol | None:
    """None for native calls. Raises ValueError for a delimited one without its marks."""
    if choice.protocol == "native":
        return None
    if choice.protocol == "delimited":
        return DelimitedProtocol(choice.opening, choice.closing, choice.body)
    return protocol_named(choice.protocol)


def protocol_named(name: Literal["json", "xml", "hermes"]) -> TextProtocol:
    match name:
        case "json":
            return JsonProtocol()
        case "xml":
            return XmlProtocol()
        case "hermes":
            return HermesProtocol()
        case _:
            assert_never(name)
