"""The only composition root: settings in, a running conversation out."""

from codeagent.bootstrap.place import Place
from codeagent.bootstrap.runtime import open_runtime
from codeagent.bootstrap.sandboxes import docker_sandbox
from codeagent.bootstrap.tools import describe_prompt, describe_tools

__all__ = ["Place", "describe_prompt", "describe_tools", "docker_sandbox", "open_runtime"]
