"""The only composition root: settings in, a running conversation out."""

from codeagent.app.place import Place, active_environment, docker_sandbox, git_elsewhere
from codeagent.app.runtime import open_runtime

__all__ = ["Place", "active_environment", "docker_sandbox", "git_elsewhere", "open_runtime"]
