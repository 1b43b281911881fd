"""Reads the chunk objects of litellm and of the OpenAI library into plain deltas and usage."""

from typing import Any

from codeagent.core.messages import Usage
from codeagent.llm.stream import CallPiece, Delta, ThinkingPiece


def read_delta(chunk: Any) -> Delta:
    """The first choice of the chunk; fields a server leaves out, or sends as null, are empty."""
    choices = _get(chunk, "choices")
    if not choices:
        return Delta()
    choice = choices[0]
    finish = _get(choice, "finish_reason") or None
    delta = _get(choice, "delta") or _get(choice, "message")
    if delta is None:
        return Delta(finish=finish)
    content = _get(delta, "content")
    text, reasoning = _from_parts(content) if isinstance(content, list) else (_text(content), "")
    thinking = tuple(_thinking(block) for block in _get(delta, "thinking_blocks") or ())
    if not thinking:
        reasoning += _text(_get(delta, "reasoning_content")) or _text(_get(delta, "reasoning"))
    calls = tuple(_call(piece) for piece in _get(delta, "tool_calls") or () if piece is not None)
    return Delta(
        text=text + _text(_get(delta, "refusal")),
        reasoning="" if thinking else reasoning,
        thinking=thinking,
        calls=calls or _legacy_call(_get(delta, "function_call")),
        finish=str(finish) if finish else None,
    )


def read_usage(chunk: Any) -> Any | None:
    """The usage object of the chunk where the provider sent one."""
    usage = _get(chunk, "usage")
    if usage is None:
        usage = _get(_get(chunk, "x_groq"), "usage")
    return usage if usage is not None and _count(usage, "prompt_tokens") + _count(usage, "completion_tokens") else None


def to_usage(raw: Any, cost: float | None) -> Usage:
    """The provider's figures in our terms: prompt tokens include what was read from and put in the cache."""
    prompt, completion = _get(raw, "prompt_tokens_details"), _get(raw, "completion_tokens_details")
    return Usage(
        input_tokens=_count(raw, "prompt_tokens"),
        output_tokens=_count(raw, "completion_tokens"),
        cache_read_tokens=_count(prompt, "cached_tokens")
        or _count(raw, "cache_read_input_tokens")
        or _count(raw, "prompt_cache_hit_tokens"),
        cache_write_tokens=_count(raw, "cache_creation_input_tokens") or _count(prompt, "cache_creation_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
        cost_usd=cost,
    )


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _count(value: Any, name: str) -> int:
    number = _get(value, name)
    return int(number) if isinstance(number, int | float) else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _from_parts(parts: list[Any]) -> tuple[str, str]:
    """Text and reasoning of content that comes as a list of typed parts."""
    text, reasoning = "", ""
    for part in parts:
        if _get(part, "type") == "thinking":
            thought = _get(part, "thinking")
            reasoning += thought if isinstance(thought, str) else "".join(_text(_get(p, "text")) for p in thought or ())
        else:
            text += part if isinstance(part, str) else _text(_get(part, "text"))
    return text, reasoning


def _thinking(block: Any) -> ThinkingPiece:
    if _get(block, "type") == "redacted_thinking":
        return ThinkingPiece(redacted=_text(_get(block, "data")))
    return ThinkingPiece(_text(_get(block, "thinking")), _get(block, "signature") or None)


def _call(piece: Any) -> CallPiece:
    function, index = _get(piece, "function"), _get(piece, "index")
    return CallPiece(
        index=index if isinstance(index, int) else None,
        id=_text(_get(piece, "id")) or None,
        name=_text(_get(function, "name")) or None,
        arguments=_text(_get(function, "arguments")),
    )


def _legacy_call(function: Any) -> tuple[CallPiece, ...]:
    if function is None:
        return ()
    return (CallPiece(0, None, _text(_get(function, "name")) or None, _text(_get(function, "arguments"))),)
