"""`codeagent prompt`: prints the system prompt as a model gets it here, or its hash."""

import argparse
import hashlib
import os
from typing import TYPE_CHECKING

from codeagent.commands.arguments import add_cwd, add_flag, say, workspace_of
from codeagent.config.local_environment import LocalEnvironment, config_dir, state_dir
from codeagent.core.sanitize import visible
from codeagent.core.toolbox import ToolProblem
from codeagent.workspace.files import LocalWorkspace
from codeagent.workspace.skills import load_instructions, open_skills

if TYPE_CHECKING:
    from codeagent.commands.ports import App


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--hash", "print only its SHA-256, which is the same from run to run")
    add_flag(parser, "--trust-project", "include the project's tool files as they are now")
    add_cwd(parser)
    parser.add_argument(
        "--sandbox",
        choices=("docker", "off"),
        default="docker",
        help="the prompt with a container (default) or without",
    )


def main(args: argparse.Namespace, app: "App") -> int:
    root, trusts = workspace_of(args.cwd), args.trust_project
    local = LocalEnvironment(
        root, state_dir(), dict(os.environ), config_dir=config_dir(), trust_project=trusts
    )
    text = app.describe_prompt(local, "docker" if args.sandbox == "docker" else "host")
    for problem in _problems(local):
        say(f"codeagent: {visible(str(problem))}")
    print(
        hashlib.sha256(text.encode()).hexdigest() if args.hash else text,
        end="\n" if args.hash else "",
    )
    return 0


def _problems(local: LocalEnvironment) -> tuple[ToolProblem, ...]:
    """Return what is wrong with the texts that the prompt is made from."""
    workspace = LocalWorkspace(local.workspace)
    own = local.own_folder
    try:
        skills = open_skills(workspace, None if own is None else own / "skills")
        return (*load_instructions(workspace).problems, *skills.problems)
    finally:
        workspace.close()
