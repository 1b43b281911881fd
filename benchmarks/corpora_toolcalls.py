"""Recorded text tool calls of many model families through our text protocols.

    python -m benchmarks.corpora_toolcalls FOLDER

FOLDER holds `full.jsonl` and `stream.jsonl`: `format text chunks tools expect{content,calls} kind`.
A claimed format is read with its protocol, any other with all of them. `right`: the calls are
equal, without any the text is whole, and both are the same in chunks of 1, 3 and 17 characters and
in the recorded ones. `refused`: nothing can run that the reference would not run, and the model is
told to repair it. `rule`: the reference drops calls of tools that were not offered, we answer them
with the closest names. Exit code 1 for anything wrong.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from codeagent.core.tool import ToolDefinition
from codeagent.extensions.text_calls.formats import PROTOCOLS
from codeagent.extensions.text_calls.protocol import AnswerPiece, BrokenCall, ParsedCall, Text

CLAIMED = {
    "json": ("llama3_json",),
    "hermes": (
        "hermes",
        "granite4 (hermes style)",
        "ernie45",
        "hunyuan",
        "jamba",
        "longcat",
        "granite",
        "granite-20b-fc",
        "internlm2",
        "mistral",
        "kimi_k2",
        "deepseek_v3",
        "deepseek_v3.1",
        "qwen3_coder/qwen3.5 xml",
        "openhands <function=…><parameter=…>",
        "step3.5 (qwen xml)",
        "mimo (qwen xml)",
        "nemotron v3 (qwen xml)",
        "granitethinking",
        "seed-oss xml",
        "glm-4.7",
        "poolside xml",
    ),
    "xml": (
        "minimax-m2 xml",
        "dots",
        "deepseek_v3.2 dsml",
        "deepseek_v4 dsml",
        "deepseek_v4.1 dsml",
    ),
}
PROTOCOL = {name: protocol for protocol, names in CLAIMED.items() for name in names}
Row = dict[str, Any]
Outcome = tuple[list[tuple[str, Any]], list[str], str]
"""Calls, reports of broken blocks, text."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what recorded text tool calls become.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="show every row that is not right")
    options = parser.parse_args()
    counts: Counter[tuple[str, str, str]] = Counter()
    for file in ("full.jsonl", "stream.jsonl"):
        for row in map(
            json.loads, (options.folder / file).read_text(encoding="utf-8").splitlines()
        ):
            claimed = PROTOCOL.get(row["format"])
            verdicts = [verdict(row, name) for name in ([claimed] if claimed else CLAIMED)]
            worst = max(verdicts, key=lambda one: ORDER.index(one[0]))
            word = worst[0] if claimed or worst[0] in ("right", "CHUNKS DIFFER") else unclaimed(row)
            counts[row["format"], claimed or "-", word] += 1
            if word in WRONG or (options.all and word != "right"):
                print(f"{row['id']} {row['format']}: {word}: {worst[1]}")
    print_counts(counts)
    sys.exit(any(word in WRONG for _, _, word in counts))


ORDER = ("right", "rule", "refused", "WRONG", "CHUNKS DIFFER")
WRONG = {"WRONG", "CALLED", "CHUNKS DIFFER"}


def verdict(row: Row, protocol: str) -> tuple[str, str]:
    wanted = [(call["name"], call["arguments"]) for call in row["expect"].get("calls") or ()]
    tools = offered(row, wanted)
    outcome = read(protocol, tools, [row["text"]])
    for chunks in cuts(row):
        if read(protocol, tools, chunks) != outcome:
            return "CHUNKS DIFFER", f"{outcome} / {read(protocol, tools, chunks)}"
    calls, broken, text = outcome
    said = f"{calls} {broken} {text!r:.80} instead of {wanted} {row['expect'].get('content')!r:.80}"
    if calls == wanted and not broken and (calls or text == row["text"]):
        return "right", said
    if by_rule(row, calls, wanted, tools):
        return "rule", said
    if all(as_run(call, tools) in wanted or is_refused(call, tools) for call in calls) and (
        broken or len(calls) >= len(wanted)
    ):
        return "refused", said
    return "WRONG", said


def is_refused(call: tuple[str, Any], tools: list[ToolDefinition]) -> bool:
    """The executor would: there is no such tool, its arguments are no object, or one that it needs
    is missing.

    An argument the tool does not have refuses nothing: it is dropped, and the call runs.
    """
    name, arguments = call
    known = {tool.name: tool.parameters.get("required") or () for tool in tools}
    if not isinstance(arguments, dict):
        return True
    if name not in known:
        return bool(known)
    return not arguments.keys() >= set(known[name])


def as_run(call: tuple[str, Any], tools: list[ToolDefinition]) -> tuple[str, Any]:
    """The call without the arguments that its tool does not have, which the executor drops."""
    name, arguments = call
    known = next((tool.parameters.get("properties") for tool in tools if tool.name == name), None)
    if not known or not isinstance(arguments, dict):
        return call  # many a row offers its tool without saying what it takes
    return name, {key: value for key, value in arguments.items() if key in known}


def by_rule(
    row: Row,
    calls: list[tuple[str, Any]],
    wanted: list[tuple[str, Any]],
    tools: list[ToolDefinition],
) -> bool:
    """The reference drops calls of tools that were not offered; here the executor names the closest
    ones."""
    known = {tool.name for tool in tools}
    unoffered = bool(calls) and any(name not in known for name, _ in calls)
    return unoffered and not wanted and row["kind"] != "none/malformed"


def unclaimed(row: Row) -> str:
    """Text, or at least nothing that would run and is not meant."""
    wanted = [(call["name"], call["arguments"]) for call in row["expect"].get("calls") or ()]
    tools = offered(row, wanted)
    for name in CLAIMED:
        calls, _, _ = read(name, tools, [row["text"]])
        if any(as_run(call, tools) not in wanted and not is_refused(call, tools) for call in calls):
            return "CALLED"
    return "text"


def offered(row: Row, wanted: list[tuple[str, Any]]) -> list[ToolDefinition]:
    """Where a row offers no tools, those that its calls name: bare JSON needs to know them."""
    tools = [tool.get("function", tool) for tool in row["tools"]]
    named = [{"name": name} for name, _ in wanted if row["kind"] == "calls" and not tools]
    return [
        ToolDefinition(
            tool["name"], "", tool.get("parameters") or {"type": "object", "properties": {}}
        )
        for tool in (*tools, *named)
    ]


def cuts(row: Row) -> list[list[str]]:
    text = row["text"]
    sized = [[text[at : at + size] for at in range(0, len(text), size)] for size in (1, 3, 17)]
    recorded = row.get("chunks")
    return [*sized, recorded] if recorded and "".join(recorded) == text else sized


def read(protocol: str, tools: list[ToolDefinition], chunks: list[str]) -> Outcome:
    parser = PROTOCOLS[protocol].parser(tools)
    pieces: list[AnswerPiece] = [piece for chunk in chunks for piece in parser.feed(chunk)]
    pieces += parser.close()
    calls = [
        (piece.name, decoded(piece.arguments)) for piece in pieces if isinstance(piece, ParsedCall)
    ]
    broken = [f"{piece.name}: {piece.why}" for piece in pieces if isinstance(piece, BrokenCall)]
    return calls, broken, "".join(piece.text for piece in pieces if isinstance(piece, Text))


def decoded(arguments: str) -> Any:
    """The object; the text where the executor would not take it."""
    try:
        return json.loads(arguments, object_pairs_hook=unique) if arguments else {}
    except ValueError:
        return arguments


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def print_counts(counts: Counter[tuple[str, str, str]]) -> None:
    for format_name, claimed in sorted(
        {key[:2] for key in counts}, key=lambda key: (key[1] == "-", key[1], key[0])
    ):
        words = {key[2]: count for key, count in counts.items() if key[0] == format_name}
        told = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
        print(f"{claimed:7} {format_name:40} {told}")


if __name__ == "__main__":
    main()
