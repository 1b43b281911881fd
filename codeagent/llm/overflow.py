"""Recognises the words with which providers and servers refuse a request as longer than the model's
window."""

import re

from codeagent.core.dataclass import dataclass

STATUSES = (None, 400, 422, 500)
"""The statuses that it is said with, besides 413, which says it without a word; None: an event in a
stream."""


@dataclass(frozen=True)
class Wording:
    """One way to say it."""

    pattern: str
    """A regular expression; case does not matter."""
    source: str
    """Who says it, and whose list of such words has it."""


WORDINGS = (
    Wording(r"prompt is too long|exceed context limit", "Anthropic"),
    Wording(r"request[ _]too[ _]large", "Anthropic: `request_too_large`"),
    Wording(
        r"(?:context|token)[ _](?:length|limit)[ _](?:was )?exceeded", "OpenAI; servers like it"
    ),
    Wording(r"maximum context length|exceeds? the context window", "OpenAI; vLLM; OpenRouter"),
    Wording(r"input tokens exceed the configured limit", "OpenAI; litellm's list"),
    Wording(
        r"token count[^\n]{0,40} exceeds? the (?:maximum|limit of \d)",
        "Gemini, GitHub Copilot; pi-ai's list",
    ),
    Wording(r"maximum prompt length", "xAI; pi-ai's list"),
    Wording(r"input is too long", "Amazon Bedrock; crewAI's list"),
    Wording(
        r"reduce the length of (?:the|your) (?:messages|prompt|input)", "Groq; OpenAI; pi-ai's list"
    ),
    Wording(r"max_new_tokens\W+must be", "Hugging Face TGI; litellm's list"),
    Wording(
        r"available context size|context (?:size|window)[^\n]{0,20} exceed",
        "llama.cpp server; MiniMax; pi-ai's list",
    ),
    Wording(
        r"prompt tokens[^\n]{0,20} exceeds? context size|context_exceeded",
        "ds4 server, pull request 150",
    ),
    Wording(r"context length of only|greater than the context length", "LM Studio; pi-ai's list"),
    Wording(
        r"longer than the model's context length|maximum context limit",
        "Together, SambaNova; litellm's list",
    ),
    Wording(r"exceeded model token limit", "Moonshot Kimi; pi-ai's list"),
    Wording(r"request tokens exceed the maximum length", "Zhipu GLM"),
    Wording(r"current length is \d+ while limit is", "Cerebras; litellm's list"),
    Wording(
        r"maximum input length is \d+[^\n]{0,20}tokens|range of input length should be",
        "Qwen; litellm's list",
    ),
    Wording(r"exceeds token limit|too many (?:input )?tokens", "Cohere; crewAI's list"),
    Wording(
        r"exceeds? the maximum number of tokens|context window (?:is )?(?:full|overflow)",
        "crewAI's list",
    ),
    Wording(
        r"exceeds? (?:the )?(?:model'?s? )?context (?:window|length|size|limit)",
        "proxies; OpenHands' list",
    ),
    Wording(
        r"context[ _](?:length|window|size|limit)[^\n]{0,20}exceed", "proxies; OpenClaw's list"
    ),
)
_COUNTED = re.compile(
    r"(?:prompt is too long: |context limit: |token count (?:of )?\(?|resulted in |request contains |request \(|"
    r"prompt tokens \(|current length is |the input \(|prompt contains |keep the first )(\d+)|"
    r"(\d+) (?:tokens )?(?:in the messages|in your prompt|from the input|of text input|input tokens)",
    re.IGNORECASE,
)
"""Where some of them say how many tokens the prompt has."""
_ANY = re.compile("|".join(wording.pattern for wording in WORDINGS), re.IGNORECASE)
_PER_MINUTE = re.compile(
    r"tokens per (?:min|day|hour)|\b(?:TPM|TPD)\b|string_above_max_length", re.IGNORECASE
)
"""A limit on speed or on one field, in the same words."""


def counted_tokens(text: str) -> int | None:
    """Return how many tokens the prompt has according to a refusal; None if it does not say."""
    found = _COUNTED.search(text)
    return int(found[1] or found[2]) if found else None


def says_too_long(text: str) -> bool:
    """Tell whether a provider says that a request is longer than the model's window."""
    return _ANY.search(text) is not None and _PER_MINUTE.search(text) is None
