"""The only composition root: settings in, a running conversation out."""

from codeagent.bootstrap.describe import describe_prompt, describe_tools, read_recipes
from codeagent.bootstrap.place import Place, active_environment, docker_sandbox, git_elsewhere
from codeagent.bootstrap.runtime import open_runtime

__all__ = [
    "Place",
    "active_environment",
    "describe_prompt",
    "describe_tools",
    "docker_sandbox",
    "git_elsewhere",
    "open_runtime",
    "read_recipes",
]
