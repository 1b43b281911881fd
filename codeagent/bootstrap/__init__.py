"""The only composition root: settings in, a running conversation out."""

from codeagent.bootstrap.place import Place, active_environment, docker_sandbox, git_elsewhere
from codeagent.bootstrap.runtime import open_runtime

__all__ = ["Place", "active_environment", "docker_sandbox", "git_elsewhere", "open_runtime"]
