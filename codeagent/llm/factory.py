"""Makes the model that a name stands for, and chooses the lane of its requests."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ModelError
from codeagent.core.model import Model
from codeagent.llm.catalog import is_scripted
from codeagent.llm.provider_tools import MakeProviderTools, ProviderTools
from codeagent.llm.providers import native_target
from codeagent.llm.retry import LONGEST_SILENCE, MAX_ATTEMPTS, AdaptingModel, RetryingModel
from codeagent.llm.server_knowledge import ServerKnowledge
from codeagent.llm.usage import Price

if TYPE_CHECKING:  # a scripted model does without
    from codeagent.llm.provider_model import ProviderModel

Lane = Literal["native", "litellm"]
LANES: Mapping[Lane, str] = {"native": "straight to its server", "litellm": "through litellm"}
"""How a user reads it."""
Wire = Literal["auto", "litellm"]
"""auto: without litellm wherever that is possible."""
Wrap = Callable[[Model, ServerKnowledge], Model]
"""Returns what is asked in place of a model, of whose server this is known."""
_SCRIPTED_DELAY = 0.05
"""Seconds before the first repetition of a scripted failure: no server has to recover."""
_IDLE = 90.0


@dataclass(frozen=True)
class ModelOptions:
    """How models are asked, whichever one it is."""

    wraps: Sequence[Wrap] = ()
    """The innermost first."""
    silence: float = LONGEST_SILENCE
    """Seconds without a word, over all attempts."""
    thinking: Effort | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model; they override the known ones."""
    fallback: str | None = None
    """The model that takes over when the first one cannot answer, if any."""
    wire: Wire = "auto"
    provider_tools: MakeProviderTools = ProviderTools


def open_model(
    name: str,
    *,
    api_base: str | None = None,
    api_key: str | None = None,
    options: ModelOptions | None = None,
    learned: ServerKnowledge | None = None,
) -> RetryingModel:
    """Open the model, with retries, and with what `options` wrap around it.

    Raises ConfigError for a bad script; a bad name shows at the first request.
    """
    options, learned = options or ModelOptions(), learned or ServerKnowledge()
    if name == "demo":
        from codeagent.llm.demo import demo_model  # no other model needs it

        return RetryingModel(demo_model(), first_delay=_SCRIPTED_DELAY)
    if is_scripted(name):
        from codeagent.llm.scripted import (
            PREFIX,
            ScriptedModel,
            load_script,
        )  # most models play no script

        script = ScriptedModel(load_script(name.removeprefix(PREFIX)), name=name)
        wrapped = _wrapped(script, options.wraps, learned)
        return RetryingModel(wrapped, first_delay=_SCRIPTED_DELAY, silence=options.silence)
    idle = max(_IDLE, options.silence / MAX_ATTEMPTS)
    model = _lane_class(lane(name, api_base, api_key, options.wire))(
        name,
        api_base=api_base,
        api_key=api_key,
        idle_timeout=idle,
        thinking=options.thinking,
        price=options.prices.get(name),
        provider_tools=options.provider_tools,
        learned=learned,
    )
    wrapped = _wrapped(AdaptingModel(model, learned), options.wraps, learned)
    return RetryingModel(wrapped, silence=options.silence)


def lane(name: str, api_base: str | None, api_key: str | None, wire: Wire) -> Lane:
    """Return how the model's requests are sent. A missing key shows at the first request, in the
    same words."""
    if wire == "litellm":
        return "litellm"
    try:
        return (
            "native"
            if native_target(name, api_base, api_key, os.environ) is not None
            else "litellm"
        )
    except ModelError:
        return "native"


def _lane_class(chosen: Lane) -> "type[ProviderModel]":
    """Import only the lane that is taken."""
    if chosen == "native":
        from codeagent.llm.native.model import NativeModel

        return NativeModel
    from codeagent.llm.litellm_model import LitellmModel

    return LitellmModel


def _wrapped(model: Model, wraps: Sequence[Wrap], learned: ServerKnowledge) -> Model:
    for wrap in wraps:
        model = wrap(model, learned)
    return model
