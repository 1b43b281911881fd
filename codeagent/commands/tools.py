"""`codeagent tools`: the tools a model can call, as it sees them."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from codeagent.bootstrap import Place, describe_tools
from codeagent.config.paths import state_dir
from codeagent.core.sanitize import one_line
from codeagent.core.tool import NotFound, Tool, ToolDefinition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every tool")
    listing.add_argument("--json", action="store_true", help="as one JSON list")
    showing = actions.add_parser("show", help="one tool with its arguments")
    showing.add_argument("name", metavar="NAME")
    showing.add_argument("--json", action="store_true", help="as one JSON object")


def main(args: argparse.Namespace) -> int:
    registry = describe_tools(Place(Path.cwd(), state_dir(), dict(os.environ)))
    definitions = {definition.name: definition for definition in registry.definitions()}
    if args.action == "list":
        found = [_facts(tool, definitions[tool.name]) for tool in registry]
        if args.json:
            print(json.dumps(found, indent=2))
        else:
            for facts in found:
                print(f"{facts['name']:<12}{facts['approval']:<8}{one_line(facts['description'], 90)}")
        return 0
    try:
        tool = registry.get(args.name)
    except NotFound as error:
        print(f"codeagent: {error}", file=sys.stderr)
        return 2
    facts = _facts(tool, definitions[tool.name])
    print(json.dumps(facts, indent=2) if args.json else _described(facts))
    return 0


def _facts(tool: Tool[Any], definition: ToolDefinition) -> dict[str, Any]:
    return {
        "name": tool.name,
        "label": tool.label,
        "source": tool.source,
        "description": definition.description,
        "approval": tool.permission,
        "effect": tool.effect,
        "mode": "direct",
        "concurrency": tool.concurrency,
        "sandboxed": tool.sandboxed,
        "hint": tool.hint,
        "timeout": tool.timeout,
        "parameters": definition.parameters,
    }


def _described(facts: dict[str, Any]) -> str:
    required = facts["parameters"].get("required", [])
    lines = [f"{facts['name']} ({facts['source']}, approval: {facts['approval']})", facts["description"], ""]
    for name, schema in facts["parameters"].get("properties", {}).items():
        kind = schema.get("type") or "/".join(str(option.get("type")) for option in schema.get("anyOf", []))
        needed = "required" if name in required else "optional"
        lines.append(f"  {name:<16}{kind}, {needed}. {schema.get('description', '')}".rstrip())
    return "\n".join(lines)
