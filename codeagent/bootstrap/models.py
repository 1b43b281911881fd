"""Opening a model, with the key that was kept for it; and going on with another one."""

import asyncio
from dataclasses import dataclass, replace

from codeagent.agent.agent import Agent
from codeagent.bootstrap.place import Place
from codeagent.config.settings import Settings
from codeagent.core.budget import Effort, said_effort
from codeagent.core.errors import CodeagentError
from codeagent.core.runtime import Runtime
from codeagent.llm.factory import ModelOptions
from codeagent.llm.factory import open_model as resolve_model
from codeagent.llm.protocols.protocol import ProtocolChoice, TextTools
from codeagent.llm.providers import context_window, has_price, key_variables
from codeagent.llm.retry import FallbackModel, RetryingModel
from codeagent.llm.usage import Price


async def no_other_model(name: str, api_base: str | None) -> Runtime:
    raise CodeagentError("this conversation keeps its model")


async def no_other_effort(effort: Effort) -> Runtime:
    raise CodeagentError("this conversation keeps its model as it is")


@dataclass(frozen=True)
class ModelChange:
    """The `use_model` of a runtime; `think` is its `use_effort`."""

    runtime: Runtime
    agent: Agent
    place: Place
    options: ModelOptions
    api_base: str | None
    """Of the model in use."""

    async def __call__(self, name: str, api_base: str | None) -> Runtime:
        return await self._go_on(name, api_base, self.options, "")

    async def think(self, effort: Effort) -> Runtime:
        options = replace(self.options, thinking=effort)
        return await self._go_on(self.runtime.model, self.api_base, options, f"thinking: {said_effort(effort)}")

    def installed(self) -> Runtime:
        return replace(self.runtime, use_model=self, use_effort=self.think)

    async def _go_on(self, name: str, api_base: str | None, options: ModelOptions, said: str) -> Runtime:
        model = await open_model(name, api_base, self.place, options)
        try:
            before = self.agent.use_model(model, api_base, said)
        except BaseException:
            await model.close()
            raise
        await before.close()
        window = await asyncio.to_thread(context_window, name)
        runtime = replace(self.runtime, model=name, context_window=window or model.context_window)
        return replace(self, runtime=runtime, options=options, api_base=api_base).installed()


async def open_model(
    name: str, api_base: str | None, place: Place, options: ModelOptions
) -> RetryingModel | FallbackModel:
    """The model and what takes over from it, its library on the way. Raises CodeagentError."""
    model = await _open_one(name, api_base, place, options)
    fallback = options.fallback
    if fallback is None or fallback == name:
        return model
    shared = api_base if "/" not in fallback or fallback.partition("/")[0] == name.partition("/")[0] else None
    return FallbackModel(model, lambda: _open_one(fallback, shared, place, options))


async def _open_one(name: str, api_base: str | None, place: Place, options: ModelOptions) -> RetryingModel:
    """With a kept key where the environment has none. Raises CodeagentError."""
    key = await asyncio.to_thread(_kept_key, name, api_base, place)
    if key is not None:
        place.redactor.learn(*key)
    model = resolve_model(name, api_base=api_base, api_key=key and key[1], options=options)
    await model.prepare()
    return model


def uncounted_budget(settings: Settings) -> str:
    """Why `limits.budget` cannot be counted, as a sentence; empty where it can, or is not set. May read a table."""
    names = (name for name in (settings.model, settings.fallback_model) if name is not None)
    unpriced = next((name for name in names if name not in settings.prices and not has_price(name)), None)
    if settings.limits.budget is None or unpriced is None:
        return ""
    return (
        f"no price is known for {unpriced}, so a budget of ${settings.limits.budget:g} would limit nothing: put "
        f'[prices."{unpriced}"] with input and output (dollars per million tokens) into config.toml, or limit tokens'
    )


def model_options(settings: Settings) -> ModelOptions:
    choices = (
        ProtocolChoice(choice.model, choice.protocol, choice.open, choice.close, choice.body)
        for choice in settings.text_tools.models
    )
    return ModelOptions(
        text_tools=TextTools(tuple(choices), settings.text_tools.when_refused),
        silence=settings.limits.model_timeout,
        thinking=settings.thinking,
        prices={
            name: Price(price.input, price.output, price.cache_read, price.cache_write)
            for name, price in settings.prices.items()
        },
        fallback=settings.fallback_model,
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
