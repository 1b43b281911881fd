"""`codeagent mcp serve`: lets other programs call codeagent's tools over MCP, in this folder, with
your approvals."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    add_list,
    add_model_arguments,
    add_sandbox,
    say,
    settings_of,
    workspace_of,
)
from codeagent.config.local_environment import LocalEnvironment, config_dir
from codeagent.config.sessions import Outcome, RunReader, Task
from codeagent.config.settings import Settings, ToolsetSettings
from codeagent.core.errors import CodeagentError, ConfigError

if TYPE_CHECKING:
    from codeagent.commands.ports import App
    from codeagent.extensions.mcp_serve.calls import CallingModel

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_list(parser, "--allow", "RULE", "never ask about these calls; repeatable")
    add_list(parser, "--deny", "RULE", "deny these calls; repeatable")
    add_sandbox(parser, "off runs commands on this machine")
    add_flag(parser, "--trust-project", "load the project's tool files for agent")
    add_cwd(parser)


def main(args: argparse.Namespace, app: "App") -> Coroutine[Any, Any, int]:
    """Check everything that can be wrong before the event loop starts. Raises ConfigError."""
    workspace = workspace_of(args.cwd)
    settings = settings_of(args, workspace)
    if sys.stdin is None or sys.stdout is None or sys.stdin.isatty():
        raise ConfigError(
            "this speaks MCP on standard input and output, so another program has to start it, with the command "
            "codeagent mcp serve; nothing was run"
        )
    image = ""
    if args.trust_project:
        image = app.accepted_image(settings, workspace, config_dir())
    local = LocalEnvironment.of_user(
        workspace, trust_project=args.trust_project, accepted_image=image
    )
    app.prepare()
    return _serve(settings, local, app)


async def _serve(settings: Settings, local: LocalEnvironment, app: "App") -> int:
    """Return the exit code: 0 if the program closed the connection. Raises CodeagentError."""
    from codeagent.extensions.mcp_serve import (
        lines,
        server,  # the library takes most of a second to import
    )
    from codeagent.extensions.mcp_serve.calls import CallingModel, require_sandbox

    model, ended = CallingModel(), list[int]()
    session = await app.open_session(
        _offered(settings, model), local, tell=say, open_model=model.open
    )
    try:
        require_sandbox(session)
        work = None if settings.model is None else partial(_work, app, settings, local)
        offer = server.Offer(session, model, work, local.redactor)
        serving = asyncio.ensure_future(server.serve(offer, lines.InputLines()))
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, _end, number, serving, ended)
        await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()
    except (OSError, ValueError) as error:
        raise CodeagentError(f"standard input cannot be read ({error})") from error
    finally:
        await session.close()
    return 128 + ended[0] if ended else 0


async def _work(
    app: "App", settings: Settings, local: LocalEnvironment, prompt: str, reader: RunReader
) -> Outcome:
    return await app.work(Task(prompt, local, settings, lists_changes=False), reader)


def _offered(settings: Settings, model: "CallingModel") -> Settings:
    """Return the settings of the conversation for the calls: it has only the offered tools.

    Nothing else is started for it, such as other servers, one of which may be this program itself.
    Its calls cost nothing, so no budget in dollars can be counted; the agent's conversations have
    it.
    """
    from codeagent.extensions.mcp_serve.server import OFFERED  # as above

    changes: dict[str, Any] = {
        "model": model.name,
        "limits": replace(settings.limits, budget=None),
        "tools": (*settings.tools, tuple(sorted(OFFERED))),
        "toolsets": ToolsetSettings(),
        "extensions": replace(settings.extensions, off=(*settings.extensions.off, "mcp")),
    }
    return replace(settings, **changes)


def _end(number: int, serving: asyncio.Future[None], ended: list[int]) -> None:
    ended.append(number)
    serving.cancel()
