"""The only composition root: settings in, a running conversation out."""

from codeagent.bootstrap.describing import describe_prompt, describe_tools
from codeagent.bootstrap.place import Place
from codeagent.bootstrap.runtime import open_runtime
from codeagent.bootstrap.sandboxes import active_environment, docker_sandbox, git_elsewhere

__all__ = [
    "Place",
    "active_environment",
    "describe_prompt",
    "describe_tools",
    "docker_sandbox",
    "git_elsewhere",
    "open_runtime",
]
