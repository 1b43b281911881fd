"""From the name a person gave to a model: `script:FILE.json`, `demo`, or anything litellm knows."""

from codeagent.core.model import Model
from codeagent.llm.demo import demo_model
from codeagent.llm.litellm_model import LitellmModel
from codeagent.llm.protocols.choice import TextTools
from codeagent.llm.protocols.choosing_model import ChoosingModel
from codeagent.llm.protocols.protocol import TextProtocol
from codeagent.llm.protocols.text_tool_model import TextToolModel
from codeagent.llm.retry import RetryingModel
from codeagent.llm.script import PREFIX, load_script
from codeagent.llm.scripted import ScriptedModel

_SCRIPTED_DELAY = 0.05
"""Seconds before the first repetition of a scripted failure: nobody has to recover."""


def open_model(
    name: str,
    *,
    api_base: str | None = None,
    api_key: str | None = None,
    max_tokens: int | None = None,
    thinking: int | None = None,
    text_tools: TextTools | None = None,
) -> RetryingModel:
    """The model, with retries, and with tools as text where `text_tools` or the provider asks for it.

    Raises ConfigError for a bad script; a bad name shows at the first request.
    """
    if name == "demo":
        return RetryingModel(demo_model(), first_delay=_SCRIPTED_DELAY)
    tools = text_tools or TextTools()
    if name.startswith(PREFIX):
        script = ScriptedModel(load_script(name.removeprefix(PREFIX)), name=name)
        return RetryingModel(_with_tools(script, tools), first_delay=_SCRIPTED_DELAY)
    model = LitellmModel(name, api_base=api_base, api_key=api_key, max_tokens=max_tokens, thinking=thinking)
    return RetryingModel(_with_tools(model, tools))


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
