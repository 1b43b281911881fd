"""How long an answer may be: within the model's window, and within what its server has said about
it."""

import asyncio
import re

from codeagent.core.compaction import characters
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.messages import Usage
from codeagent.core.model import ModelRequest
from codeagent.llm.usage import prompt_tokens

_LEAST = 256
"""Tokens that an answer needs at least; with fewer left, the conversation is too long."""
_MARGIN = 1.1
_USUAL_RATIO = 0.25
"""Tokens of a character, before a provider has counted any."""
_FIXED = 64
"""Tokens of a chat template around the messages."""
_LIMIT = r"max_(?:completion_|output_|new_)?tokens\W+"
_REFUSALS = tuple(
    lazy_regex(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"maximum context length (?:is|of) (?P<window>\d+) tokens.{0,200}?(?P<prompt>\d+) (?:tokens )?"
        r"(?:in the messages|in your prompt|from the input|of text input|input tokens)",
        r"`inputs` tokens \+ `max_new_tokens` must be <= (?P<window>\d+)\W+Given: (?P<prompt>\d+)",
        r"exceed context limit: (?P<prompt>\d+) \+ \d+ > (?P<window>\d+)",
        rf"{_LIMIT}\d+ > (?P<most>\d+), which is the maximum",
        r"supports at most (?P<most>\d+) (?:completion|output) tokens",
        rf"range of {_LIMIT}(?:is|should be) \[\d+, ?(?P<most>\d+)\]",
        rf"{_LIMIT}must be (?:less than or equal to|at most|<=)\W*(?P<most>\d+)",
        r"maximum tokens you requested exceeds the model limit of (?P<most>\d+)",
    )
)
"""How vLLM, OpenAI, SGLang, OpenRouter, text-generation-inference, Anthropic, DeepSeek, Qwen, Groq
and Bedrock say that an answer may not be that long."""


class AnswerBudget:
    """Keeps the answers of one model within its window."""

    def __init__(self) -> None:
        self.window: int | None = None
        """The window that a refusal has named."""
        self._most: int | None = None
        """The longest answer that a refusal has named."""
        self._ratio: float | None = None
        """Tokens of a character, by what the provider counted last."""

    async def left(self, window: int | None, request: ModelRequest) -> int | None:
        """Return how many tokens an answer may have beside the request; None if neither limit is
        known."""
        window = _smaller(window, self.window)
        if window is None:
            return self._most
        if self._ratio is None:
            prompt = await asyncio.to_thread(prompt_tokens, request)
        else:
            prompt = round(_length(request) * self._ratio)
        return _smaller(max(window - round(prompt * _MARGIN) - _FIXED, _LEAST), self._most)

    def estimate(self, request: ModelRequest) -> int:
        """Return about how many tokens a request has, from its length."""
        return round(_length(request) * (self._ratio or _USUAL_RATIO))

    def answered(self, request: ModelRequest, usage: Usage) -> None:
        """Learn how many tokens a character has from what the provider counted."""
        if usage.input_tokens and not usage.estimated:
            self._ratio = usage.input_tokens / max(_length(request), 1)

    def refused(self, said: str, request: ModelRequest, asked: int | None) -> int | None:
        """Learn from a refusal; return the tokens to ask for instead, None if it names no number
        below `asked`."""
        found = next((match for pattern in _REFUSALS if (match := pattern.search(said))), None)
        if found is None:
            return None
        named = {name: int(number) for name, number in found.groupdict().items()}
        room = named["most"] if "most" in named else named["window"] - named["prompt"]
        if room < _LEAST or (asked is not None and room >= asked):
            return None
        if "prompt" in named:
            self._ratio = named["prompt"] / max(_length(request), 1)
        self._most = named.get("most", self._most)
        self.window = named.get("window", self.window)
        return room


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _length(request: ModelRequest) -> int:
    tools = sum(
        len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in request.tools
    )
    return len(request.system) + tools + sum(map(characters, request.messages))
