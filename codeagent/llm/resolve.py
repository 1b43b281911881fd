"""From the name a person gave to a model: `script:FILE.json`, `demo`, or anything litellm knows."""

from codeagent.core.model import Model
from codeagent.llm.demo import demo_model
from codeagent.llm.litellm_model import LitellmModel
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
) -> RetryingModel:
    """The model, with retries. Raises ConfigError for a bad script; a bad name shows at the first request."""
    model: Model
    if name == "demo":
        return RetryingModel(demo_model(), first_delay=_SCRIPTED_DELAY)
    if name.startswith(PREFIX):
        model = ScriptedModel(load_script(name.removeprefix(PREFIX)), name=name)
        return RetryingModel(model, first_delay=_SCRIPTED_DELAY)
    model = LitellmModel(name, api_base=api_base, api_key=api_key, max_tokens=max_tokens, thinking=thinking)
    return RetryingModel(model)
