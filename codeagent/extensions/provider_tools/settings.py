"""The section `provider_tools` of the settings."""

from typing import Annotated

from codeagent.core.model import PROVIDER_TOOLS


def _known(name: str) -> str:
    if name.startswith("computer"):
        raise ValueError("computer use is refused: nothing here could answer its calls")
    if name not in PROVIDER_TOOLS:
        raise ValueError(f"no provider runs that; there are {', '.join(PROVIDER_TOOLS)}")
    return name


ProviderToolSettings = dict[str, tuple[Annotated[str, _known], ...]]
"""The tools that its provider runs for a model, by a pattern over its name; see
docs/how-to/provider-tools.md."""
