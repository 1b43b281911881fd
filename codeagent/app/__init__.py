"""The only composition root, and the public API: settings in, a running session out.

Nothing of it is imported before it is used, so that the command line can hand it to every command.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from codeagent.config.local_environment import LocalEnvironment
    from codeagent.config.sessions import GivenSettings, GivenWorkspace, Outcome, RunReader, Task
    from codeagent.config.settings import Settings
    from codeagent.core.events import RunFinished
    from codeagent.core.recipes import Recipes
    from codeagent.core.runtime import Session
    from codeagent.core.sandbox import SandboxKind
    from codeagent.sandbox.described_image import ImageSource
    from codeagent.sandbox.docker_sandbox import DockerSandbox
    from codeagent.tools.catalog import ToolCatalog


class LocalApp:
    """Implements the App of `commands.ports` on this machine."""

    def prepare(self) -> None:
        gc.disable()  # modules live as long as the program: looking through them is useless
        try:
            import_module("codeagent.app.work")  # with everything that a session needs
        finally:
            gc.freeze()
            gc.enable()

    async def open_session(
        self, settings: "GivenSettings", workspace: "GivenWorkspace", **options: Any
    ) -> "Session":
        from codeagent.app.runtime import open_session

        return await open_session(settings, workspace, **options)

    async def work(self, task: "Task", reader: "RunReader | None" = None) -> "Outcome":
        from codeagent.app.work import work

        return await work(task, reader)

    async def ask(
        self, prompt: str, instructions: str, settings: "Settings", local: "LocalEnvironment"
    ) -> "RunFinished":
        from codeagent.app.work import ask

        return await ask(prompt, instructions, settings, local)

    def describe_tools(
        self, local: "LocalEnvironment", settings: "Settings | None" = None
    ) -> "ToolCatalog":
        from codeagent.app.describe import describe_tools

        return describe_tools(local, settings)

    def describe_prompt(self, local: "LocalEnvironment", kind: "SandboxKind") -> str:
        from codeagent.app.describe import describe_prompt

        return describe_prompt(local, kind)

    def read_recipes(self, local: "LocalEnvironment") -> "Recipes":
        from codeagent.app.describe import read_recipes

        return read_recipes(local)

    def image_source(
        self, settings: "Settings", workspace: "Path", config_dir: "Path | None"
    ) -> "ImageSource | None":
        from codeagent.app.images import image_source

        return image_source(settings, workspace, config_dir)

    def accepted_image(
        self, settings: "Settings", workspace: "Path", config_dir: "Path | None"
    ) -> str:
        from codeagent.app.images import accepted_image

        return accepted_image(settings, workspace, config_dir)

    def docker_sandbox(
        self, settings: "Settings", local: "LocalEnvironment", root: "Path", session: str
    ) -> "DockerSandbox":
        from codeagent.app.sandbox import docker_sandbox

        return docker_sandbox(settings, local, root, session)
