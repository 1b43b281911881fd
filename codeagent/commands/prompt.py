"""`codeagent prompt`: the system prompt as a model gets it here, or its hash."""

import argparse
import hashlib
import os
from pathlib import Path

from codeagent.bootstrap import Place, describe_prompt
from codeagent.commands.given import workspace_of
from codeagent.config.paths import config_dir, state_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hash", action="store_true", help="its SHA-256 only: equal from run to run")
    parser.add_argument("--cwd", metavar="DIR", type=Path, default=Path(), help="the workspace (default: here)")
    parser.add_argument(
        "--sandbox", choices=("docker", "off"), default="docker", help="as it is with a container (default) or without"
    )


def main(args: argparse.Namespace) -> int:
    place = Place(workspace_of(args.cwd), state_dir(), dict(os.environ), config_dir=config_dir())
    text = describe_prompt(place, "docker" if args.sandbox == "docker" else "host")
    print(hashlib.sha256(text.encode()).hexdigest() if args.hash else text, end="\n" if args.hash else "")
    return 0
