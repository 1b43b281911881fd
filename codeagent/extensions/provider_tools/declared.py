"""The tools that each provider runs itself: which models have them, and how a request declares
each."""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from codeagent.core.extension import Sections
from codeagent.core.model import ProviderUse
from codeagent.extensions.provider_tools import uses
from codeagent.llm.provider_tools import ProviderTools
from codeagent.llm.providers import OnWire, Target, WireFormat

DeclaredTools = Mapping[str, Collection[str]]
"""Which of its provider's tools a model has, by a pattern over the model's name; the first that
matches counts."""

_TABLE: Mapping[WireFormat, Mapping[str, OnWire]] = {
    "anthropic": {
        "web_search": OnWire({"type": "web_search_20250305", "name": "web_search"}),
        "code_execution": OnWire(
            {"type": "code_execution_20250825", "name": "code_execution"},
            beta="code-execution-2025-08-25",
        ),
    },
    "responses": {
        "web_search": OnWire({"type": "web_search"}, include="web_search_call.action.sources"),
        "code_execution": OnWire(
            {"type": "code_interpreter", "container": {"type": "auto"}},
            include="code_interpreter_call.outputs",
        ),
        "image_generation": OnWire({"type": "image_generation"}),
    },
    "chat": {"web_search": OnWire(fields={"web_search_options": {}})},
}
_OF_FORMAT = {"anthropic": "anthropic", "responses": "openai"}
"""Whose models have all tools of a format, unless the settings say otherwise."""


def known_tools(settings: Sections) -> ProviderTools:
    chosen: DeclaredTools = settings.section("provider_tools", dict)
    return KnownTools(chosen)


class KnownTools(ProviderTools):
    """Those of the table, for the models that have them or that the settings name."""

    def __init__(self, chosen: DeclaredTools | None = None) -> None:
        """`chosen` overrides what is known."""
        self._chosen = chosen or {}

    def declared(self, target: Target, model: str, *, searches: bool) -> Mapping[str, OnWire]:
        rows = _TABLE[target.format]
        chosen = self._chosen.items()
        said = next((tools for pattern, tools in chosen if fnmatchcase(model, pattern)), None)
        if said is None:
            known = (
                searches
                and target.format == "chat"
                and bool(target.facts.get("supports_web_search"))
            )
            said = rows if known or _OF_FORMAT.get(target.format) == target.provider else ()
        return {name: row for name, row in rows.items() if name in said}

    def of_block(self, call: Mapping[str, Any], result: Mapping[str, Any]) -> ProviderUse:
        return uses.of_block(call, result)

    def of_item(self, item: Mapping[str, Any]) -> ProviderUse:
        return uses.of_item(item)

    def of_notes(self, notes: Iterable[Any]) -> ProviderUse | None:
        files = uses.cited_files(notes)
        return ProviderUse(tool="code_execution", files=files) if files else None
