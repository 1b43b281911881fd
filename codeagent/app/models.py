"""Opens models, with the keys that were kept for them."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, field, replace
from functools import cache, partial

from codeagent.config.extensions import all_extensions
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import Settings
from codeagent.core.budget import Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError, ModelError
from codeagent.core.extension import Extension, Reference, resolved
from codeagent.core.model import Model, ModelInUse, same_provider
from codeagent.llm.catalog import context_window, facts_of, has_price, is_scripted
from codeagent.llm.factory import LANES, ModelOptions, lane, open_model
from codeagent.llm.provider_tools import MakeProviderTools, ProviderTools
from codeagent.llm.providers import key_variables, native_target, own_server, server_of
from codeagent.llm.retry import FallbackModel, RetryingModel
from codeagent.llm.server_knowledge import ServerKnowledge
from codeagent.llm.usage import Price


@dataclass(frozen=True)
class OpenModels:
    """Opens the models that a conversation continues with (a `core.model.ModelOpener`)."""

    local: LocalEnvironment
    options: ModelOptions
    window: int | None = None
    """Tokens that the user configured; None: what is known of the model."""
    known: dict[tuple[str, str | None], ServerKnowledge] = field(default_factory=dict)
    """By model and address."""

    async def __call__(
        self, name: str, api_base: str | None, effort: Effort | None
    ) -> tuple[Model, ModelInUse]:
        """Open the model and what takes over from it, ask its server what it can do, and begin to
        load its library.

        Raises CodeagentError.
        """
        options = replace(self.options, thinking=effort)
        model = await self._with_fallback(name, api_base, options)
        window = (
            self.window or model.context_window or await asyncio.to_thread(context_window, name)
        )
        lane_used = "" if is_scripted(name) else LANES[lane(name, api_base, None, options.wire)]
        server = server_of(name, api_base, self.local.environment)
        images = self.known[name, api_base].images
        if images is None:
            facts = await asyncio.to_thread(facts_of, name)
            images = None if facts is None else facts.images
        return model, ModelInUse(
            name, api_base, effort, window, lane=lane_used, server=server, images=images
        )

    async def _with_fallback(
        self, name: str, api_base: str | None, options: ModelOptions
    ) -> RetryingModel | FallbackModel:
        model = await self._open(name, api_base, options)
        fallback, environment = options.fallback, self.local.environment
        if fallback is None or fallback == name:
            return model
        shared = api_base if same_provider(fallback, name) else None
        server = server_of(fallback, shared, environment)
        other = "" if server == server_of(name, api_base, environment) else server
        return FallbackModel(model, lambda: self._open(fallback, shared, options), other)

    async def _open(self, name: str, api_base: str | None, options: ModelOptions) -> RetryingModel:
        """Open one model, with a kept key if the environment has none. Raises CodeagentError."""
        key = await asyncio.to_thread(_kept_key, name, api_base, self.local)
        if key is not None:
            self.local.redactor.learn(*key)
        value = key and key[1]
        learned = self.known.get((name, api_base)) or _learned(name, api_base, value, self.local)
        self.known[name, api_base] = learned
        model = open_model(name, api_base=api_base, api_key=value, options=options, learned=learned)
        await model.prepare()
        await learned.look()
        return model


def _learned(
    name: str, api_base: str | None, key: str | None, local: LocalEnvironment
) -> ServerKnowledge:
    """Return what is known before the server was asked: where it is, if it is the user's own."""
    base = own_server(name, api_base, local.environment)
    if base is None:
        return ServerKnowledge()
    try:
        target = native_target(name, api_base, key, local.environment)
    except ModelError:  # its first request says what is missing
        return ServerKnowledge()
    if target is None or target.endpoint is None:
        return ServerKnowledge(base, {}, name.partition("/")[2] or name)
    return ServerKnowledge(base, target.endpoint.headers, target.bare_name)


def check_counted(settings: Settings, *, attended: bool = False) -> tuple[tuple[str, str], ...]:
    """Return code and text of a notice about a budget in dollars that would limit nothing, as a
    price is unknown.

    Raises ConfigError if nobody would read it.
    """
    names = (name for name in (settings.model, settings.fallback_model) if name is not None)
    unpriced = next(
        (name for name in names if name not in settings.prices and not has_price(name)), None
    )
    if settings.limits.budget is None or unpriced is None:
        return ()
    why = (
        f"no price is known for {unpriced}, so a budget of ${settings.limits.budget:g} would limit nothing: put "
        f'[prices."{unpriced}"] with input and output (dollars per million tokens) into config.toml, or limit tokens'
    )
    if not attended:
        raise ConfigError(f"{why}; nothing was run")
    return (("budget.uncounted", why),)


def check_budget(settings: Settings, model: str, dollars: float) -> None:
    """Raise ConfigError if a budget of a recipe, an agent or a group would limit nothing. May read
    a table."""
    limits = replace(settings.limits, budget=dollars)
    check_counted(replace(settings, model=model, limits=limits))


def model_options(settings: Settings) -> ModelOptions:
    """Return how models are asked, with what extensions add. Raises ConfigError."""
    extensions = all_extensions().without(settings.extensions.off).on
    return ModelOptions(
        wraps=[partial(_wrapped, one.models, settings) for one in extensions if one.models],
        silence=settings.limits.model_timeout,
        thinking=settings.thinking,
        wire=settings.wire,
        prices={name: Price(**asdict(price)) for name, price in settings.prices.items()},
        fallback=settings.fallback_model,
        provider_tools=_provider_tools(extensions, settings),
    )


def _wrapped(wrap: Reference, settings: Settings, model: Model, learned: ServerKnowledge) -> Model:
    other: Model = resolved(wrap)(model, learned, settings)
    return other


def _provider_tools(extensions: Sequence[Extension], settings: Settings) -> MakeProviderTools:
    """Return what makes the tools that providers run, once for all models."""
    make = next((one.at_provider for one in extensions if one.at_provider), None)
    return ProviderTools if make is None else cache(partial(_made, make, settings))


def _made(make: Reference, settings: Settings) -> ProviderTools:
    made: ProviderTools = resolved(make)(settings)
    return made


def _kept_key(name: str, api_base: str | None, local: LocalEnvironment) -> tuple[str, str] | None:
    """Return variable and value; None if the environment has a key, or no key is kept.

    A key that was kept for the user's own server wins over the environment, whose key is for the
    whole provider.
    """
    own = own_server(name, api_base, local.environment)
    if own is not None:
        from codeagent.config.keys import server_variable  # only for the user's own servers

        variable = server_variable(own)
        if value := local.find_key(variable):
            return variable, value
    variables = key_variables(name, api_base)
    if any(local.environment.get(variable) for variable in variables):
        return None
    for variable in variables:
        if value := local.find_key(variable):
            return variable, value
    return None
