"""The protocols by name."""

from typing import Literal, assert_never

from codeagent.llm.protocols.choice import ProtocolChoice
from codeagent.llm.protocols.delimited_protocol import DelimitedProtocol
from codeagent.llm.protocols.hermes_protocol import HermesProtocol
from codeagent.llm.protocols.json_protocol import JsonProtocol
from codeagent.llm.protocols.protocol import TextProtocol
from codeagent.llm.protocols.xml_protocol import XmlProtocol


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
