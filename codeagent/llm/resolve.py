"""From the name a person gave to a model: `script:FILE.json`, `demo`, or anything litellm knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from codeagent.core.budget import Effort
from codeagent.core.model import Model
from codeagent.llm.demo import demo_model
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.protocols.choice import TextTools
from codeagent.llm.protocols.choosing_model import ChoosingModel
from codeagent.llm.protocols.protocol import TextProtocol
from codeagent.llm.protocols.text_tool_model import TextToolModel
from codeagent.llm.retry import LONGEST_SILENCE, MAX_ATTEMPTS, RetryingModel
from codeagent.llm.script import PREFIX, load_script
from codeagent.llm.scripted import ScriptedModel
from codeagent.llm.usage import Price

_SCRIPTED_DELAY = 0.05
"""Seconds before the first repetition of a scripted failure: nobody has to recover."""
_IDLE = 90.0


@dataclass(frozen=True)
class ModelOptions:
    """How models are asked, whichever it is."""

    text_tools: TextTools = field(default_factory=TextTools)
    silence: float = LONGEST_SILENCE
    """Seconds without a word, of all attempts together."""
    thinking: Effort | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model; they go before what is known of one."""
    fallback: str | None = None
    """The model that takes over; None where none does."""


def open_model(
    name: str, *, api_base: str | None = None, api_key: str | None = None, options: ModelOptions | None = None
) -> RetryingModel:
    """The model, with retries, and with tools as text where `options` or the provider wants it.

    Raises ConfigError for a bad script; a bad name shows at the first request.
    """
    options = options or ModelOptions()
    if name == "demo":
        return RetryingModel(demo_model(), first_delay=_SCRIPTED_DELAY)
    if name.startswith(PREFIX):
        script = ScriptedModel(load_script(name.removeprefix(PREFIX)), name=name)
        tooled = _with_tools(script, options.text_tools)
        return RetryingModel(tooled, first_delay=_SCRIPTED_DELAY, silence=options.silence)
    idle = max(_IDLE, options.silence / MAX_ATTEMPTS)
    model = LitellmModel(
        name,
        api_base=api_base,
        api_key=api_key,
        idle_timeout=idle,
        thinking=options.thinking,
        price=options.prices.get(name),
    )
    return RetryingModel(_with_tools(model, options.text_tools), silence=options.silence)


def _with_tools(model: Model, tools: TextTools) -> Model:
    """A choice holds as it is; without one, a refusal of native tools is found out and answered with text."""
    choice = tools.choice(model.name)
    if choice is None:
        return ChoosingModel(model, lambda: _protocol_when_refused(tools))
    from codeagent.llm.protocols.named import protocol_of  # parsers that most models never need

    protocol = protocol_of(choice)
    return model if protocol is None else TextToolModel(model, protocol)


def _protocol_when_refused(tools: TextTools) -> TextProtocol:
    from codeagent.llm.protocols.named import protocol_named  # as above

    return protocol_named(tools.when_refused)
