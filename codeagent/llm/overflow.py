"""Recognises the words with which providers and servers refuse a request as longer than the model's
window."""

import re

STATUSES = (None, 400, 422, 500)
"""The statuses that it is said with, besides 413, which says it without a word; None: an event in a
stream."""


_WORDINGS = (
    r"prompt is too long|exceed context limit",  # Anthropic
    r"request[ _]too[ _]large",  # Anthropic: `request_too_large`
    r"(?:context|token)[ _](?:length|limit)[ _](?:was )?exceeded",  # OpenAI; servers like it
    r"maximum context length|exceeds? the context window",  # OpenAI; vLLM; OpenRouter
    r"input tokens exceed the configured limit",  # OpenAI; litellm's list
    r"token count[^\n]{0,40} exceeds? the (?:maximum|limit of \d)",  # Gemini, GitHub Copilot; pi-ai's list
    r"maximum prompt length",  # xAI; pi-ai's list
    r"input is too long",  # Amazon Bedrock; crewAI's list
    r"reduce the length of (?:the|your) (?:messages|prompt|input)",  # Groq; OpenAI; pi-ai's list
    r"max_new_tokens\W+must be",  # Hugging Face TGI; litellm's list
    r"available context size|context (?:size|window)[^\n]{0,20} exceed",  # llama.cpp server; MiniMax; pi-ai's list
    r"prompt tokens[^\n]{0,20} exceeds? context size|context_exceeded",  # ds4 server, pull request 150
    r"context length of only|greater than the context length",  # LM Studio; pi-ai's list
    r"longer than the model's context length|maximum context limit",  # Together, SambaNova; litellm's list
    r"exceeded model token limit",  # Moonshot Kimi; pi-ai's list
    r"request tokens exceed the maximum length",  # Zhipu GLM
    r"current length is \d+ while limit is",  # Cerebras; litellm's list
    r"maximum input length is \d+[^\n]{0,20}tokens|range of input length should be",  # Qwen; litellm's list
    r"exceeds token limit|too many (?:input )?tokens",  # Cohere; crewAI's list
    r"exceeds? the maximum number of tokens|context window (?:is )?(?:full|overflow)",  # crewAI's list
    r"exceeds? (?:the )?(?:model'?s? )?context (?:window|length|size|limit)",  # proxies; OpenHands' list
    r"context[ _](?:length|window|size|limit)[^\n]{0,20}exceed",  # proxies; OpenClaw's list
)
"""Regular expressions, each with who says it and whose list of such words has it; case does not
matter."""
_COUNTED = re.compile(
    r"(?:prompt is too long: |context limit: |token count (?:of )?\(?|resulted in |request contains |request \(|"
    r"prompt tokens \(|current length is |the input \(|prompt contains |keep the first )(\d+)|"
    r"(\d+) (?:tokens )?(?:in the messages|in your prompt|from the input|of text input|input tokens)",
    re.IGNORECASE,
)
"""Where some of them say how many tokens the prompt has."""
_ANY = re.compile("|".join(_WORDINGS), re.IGNORECASE)
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
