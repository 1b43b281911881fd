"""Makes schemas of recorded functions and compares them with what other libraries made of the same
functions.

    python -m benchmarks.corpora_schema FOLDER

FOLDER holds `functions.jsonl`: `lib source name schema options`. What is compared is names, types,
required, defaults, descriptions and enums; where a library does otherwise on purpose, its way is
counted by name.
"""

import argparse
import json
import sys
import types
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from codeagent.extensions.user_tools.function_schema import NotATool, function_schema
from codeagent.tools.schema import arguments_schema

PRELUDE = """
from __future__ import annotations
import dataclasses, datetime, enum, typing
from collections.abc import *
from dataclasses import dataclass, field
from enum import Enum
from typing import *
from typing_extensions import TypedDict
from pydantic import BaseModel, Field
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Count how schemas of functions compare.")
    parser.add_argument("folder", type=Path)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in (parser.parse_args().folder / "functions.jsonl").read_text().splitlines():
        row = json.loads(line)
        for outcome in outcomes(row):
            counts[row["lib"]][outcome] += 1
            if outcome.startswith("DIFFERS"):
                print(row["id"], row["name"], outcome)
    for library, found in counts.items():
        print(f"\n{library}")
        for outcome, count in found.most_common():
            print(f"  {count:4}  {outcome}")


def outcomes(row: dict[str, Any]) -> list[str]:
    if not row["standalone"]:
        return ["not standalone: names of its test file are missing"]
    module = types.ModuleType("recorded_function")
    sys.modules[module.__name__] = module
    try:
        exec(PRELUDE, module.__dict__)
        exec(compile(row["source"], "recorded.py", "exec"), module.__dict__)
        functions = [
            value for value in vars(module).values() if isinstance(value, types.FunctionType)
        ]
        function = next(value for value in functions if value.__module__ == module.__name__)
        described = function_schema(function, None if function.__doc__ else "No docstring.")
        schema = arguments_schema(described.model)
    except NotATool as error:
        return [f"refused: {generic(reason)}" for reason in error.reasons[:1]]
    except Exception as error:
        return [f"cannot be executed: {type(error).__name__}: {error}"[:100]]
    finally:
        sys.modules.pop(module.__name__)
    return list(dict.fromkeys(differences(schema, row))) or ["same"]


def generic(reason: str) -> str:
    for part in (
        "no type hint",
        "cannot be described to a model",
        "no docstring",
        "holds bytes",
        "does not fit its type",
    ):
        if part in reason:
            return part
    return reason[:80]


def differences(ours: dict[str, Any], row: dict[str, Any]) -> list[str]:
    theirs, library = row["schema"], row["lib"]
    undescribed = library == "langchain-core" and "parse_docstring" not in row["options"]
    definitions = theirs.get("$defs", {})
    mine, other = ours["properties"], theirs.get("properties", {})
    if set(mine) != set(other):
        recorded_elsewhere = not set(mine) & set(other)
        return [
            "theirs is of another function (a wrapper was recorded)"
            if recorded_elsewhere
            else "DIFFERS: names"
        ]
    found = []
    if set(ours.get("required", [])) != set(theirs.get("required", [])):
        strict = library == "openai-agents" and set(theirs.get("required", [])) == set(other)
        found.append("their way: all is required (strict mode)" if strict else "DIFFERS: required")
    for name, node in mine.items():
        their_node = within(other[name], definitions)
        if undescribed and node.get("description") and "description" not in their_node:
            found.append("their way: a docstring is not read unless told to")
            del node["description"]
        found += [
            f"{kind} of {name}" if kind.startswith("DIFFERS") else kind
            for kind in of_one(node, their_node)
        ]
    return found


def within(node: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    for reference in [node.get("$ref")] + [part.get("$ref") for part in node.get("allOf", [])]:
        if reference:
            rest = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
            return {**definitions[reference.rpartition("/")[2]], **rest}
    return dict(node)


def of_one(mine: dict[str, Any], other: dict[str, Any]) -> list[str]:
    found = []
    if kinds(mine) != kinds(other):
        nothing = kinds(other) - kinds(mine) == {"null"}
        text = f"DIFFERS: type {sorted(kinds(mine))} for {sorted(kinds(other))}"
        found.append("their way: what may be left out also says null" if nothing else text)
    if mine.get("default") != other.get("default"):
        empty = other.get("default") is False and "default" not in mine
        found.append("our way: an empty default is not written" if empty else "DIFFERS: default")
    if (mine.get("description") or "") != (other.get("description") or ""):
        same = " ".join((mine.get("description") or "").split()) == " ".join(
            (other.get("description") or "").split()
        )
        text = f"DIFFERS: description {mine.get('description')!r} for {other.get('description')!r}"
        found.append("white space of a description" if same else text)
    if sorted(map(str, mine.get("enum", []))) != sorted(map(str, other.get("enum", []))):
        found.append("DIFFERS: enum")
    return found


def kinds(node: dict[str, Any]) -> set[str]:
    """The types a value may have, as far as the first level says."""
    if not isinstance(node, dict):
        return set()
    if "anyOf" in node or "oneOf" in node:
        return set().union(*(kinds(option) for option in node.get("anyOf", node.get("oneOf"))))
    if "$ref" in node:
        return {"object"}
    kind = node.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


if __name__ == "__main__":
    main()
