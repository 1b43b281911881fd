"""Opening a model, with the key that was kept for it; and going on with another one."""

import asyncio
from dataclasses import dataclass, replace

from codeagent.agent.agent import Agent
from codeagent.bootstrap.place import Place
from codeagent.config.settings import Settings
from codeagent.core.errors import CodeagentError
from codeagent.core.runtime import Runtime
from codeagent.llm.hosted import context_window, key_variables
from codeagent.llm.protocols.choice import ProtocolChoice, TextTools
from codeagent.llm.resolve import ModelOptions
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
    options: ModelOptions

    async def __call__(self, name: str, api_base: str | None) -> Runtime:
        model = await open_model(name, api_base, self.place, self.options)
        try:
            before = self.agent.use_model(model, api_base)
        except BaseException:
            await model.close()
            raise
        await before.close()
        window = await asyncio.to_thread(context_window, name)
        return replace(self.runtime, model=name, context_window=window or model.context_window, use_model=self)


async def open_model(name: str, api_base: str | None, place: Place, options: ModelOptions) -> RetryingModel:
    """The model, its library on the way; with a kept key where the environment has none. Raises CodeagentError."""
    key = await asyncio.to_thread(_kept_key, name, api_base, place)
    if key is not None:
        place.redactor.learn(*key)
    model = resolve_model(name, api_base=api_base, api_key=key and key[1], options=options)
    await model.prepare()
    return model


def model_options(settings: Settings) -> ModelOptions:
    choices = (
        ProtocolChoice(choice.model, choice.protocol, choice.open, choice.close, choice.body)
        for choice in settings.text_tools.models
    )
    return ModelOptions(
        text_tools=TextTools(tuple(choices), settings.text_tools.when_refused), silence=settings.limits.model_timeout
    )


def _kept_key(name: str, api_base: str | None, place: Place) -> tuple[str, str] | None:
    """Variable and value."""
    variables = key_variables(name, api_base)
    if any(place.environment.get(variable) for variable in variables):
        return None
    for variable in variables:
        if value := place.find_key(variable):
            return variable, value
    return None
