"""Opening a model, with the key that was kept for it; and going on with another one."""

import asyncio
from dataclasses import dataclass, replace

from codeagent.agent.agent import Agent
from codeagent.bootstrap.place import Place
from codeagent.config.settings import TextToolSettings
from codeagent.core.errors import CodeagentError
from codeagent.core.runtime import Runtime
from codeagent.llm.hosted import context_window, key_variables
from codeagent.llm.protocols.choice import ProtocolChoice, TextTools
from codeagent.llm.resolve import open_model as resolve_model
from codeagent.llm.retry import RetryingModel


async def no_other_model(name: str, api_base: str | None) -> Runtime:
    raise CodeagentError("this conversation keeps its model")


@dataclass(frozen=True)
class ModelChange:
    """The `use_model` of a runtime."""

    runtime: Runtime
    agent: Agent
    place: Place
    text_tools: TextTools

    async def __call__(self, name: str, api_base: str | None) -> Runtime:
        model = await open_model(name, api_base, self.place, self.text_tools)
        try:
            before = self.agent.use_model(model, api_base)
        except BaseException:
            await model.close()
            raise
        await before.close()
        window = await asyncio.to_thread(context_window, name)
        return replace(self.runtime, model=name, context_window=window or model.context_window, use_model=self)


async def open_model(name: str, api_base: str | None, place: Place, text_tools: TextTools) -> RetryingModel:
    """The model, its library on the way; with a kept key where the environment has none. Raises CodeagentError."""
    key = await asyncio.to_thread(_kept_key, name, api_base, place)
    if key is not None:
        place.redactor.learn(*key)
    model = resolve_model(name, api_base=api_base, api_key=key and key[1], text_tools=text_tools)
    await model.prepare()
    return model


def text_tools_of(settings: TextToolSettings) -> TextTools:
    choices = (
        ProtocolChoice(choice.model, choice.protocol, choice.open, choice.close, choice.body)
        for choice in settings.models
    )
    return TextTools(tuple(choices), settings.when_refused)


def _kept_key(name: str, api_base: str | None, place: Place) -> tuple[str, str] | None:
    """Variable and value."""
    variables = key_variables(name, api_base)
    if any(place.environment.get(variable) for variable in variables):
        return None
    for variable in variables:
        if value := place.find_key(variable):
            return variable, value
    return None
