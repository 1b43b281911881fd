"""`codeagent mcp serve`: lets other programs call codeagent's tools over MCP, in this folder, with
your approvals."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from codeagent.app import Place, open_runtime
from codeagent.app.images import accepted_image
from codeagent.commands.arguments import say, settings_of, workspace_of
from codeagent.config.keys import KeyStore
from codeagent.config.paths import config_dir, state_dir
from codeagent.config.settings import Settings, ToolsetSettings
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.runtime import Runtime
from codeagent.extensions.mcp.serve.calls import CallingModel

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Check everything that can be wrong before the event loop starts. Raises ConfigError."""
    workspace = workspace_of(args.cwd)
    settings = settings_of(args, workspace)
    if sys.stdin is None or sys.stdout is None or sys.stdin.isatty():
        raise ConfigError(
            "this speaks MCP on standard input and output, so another program has to start it, with the command "
            "codeagent mcp serve; nothing was run"
        )
    environment, trusted = dict(os.environ), args.trust_project
    image = accepted_image(settings, workspace, config_dir()) if trusted else ""
    place = Place(
        workspace,
        state_dir(),
        environment,
        KeyStore(config_dir()).find,
        config_dir(),
        trust_project=trusted,
        accepted_image=image,
    )
    return _serve(settings, place)


async def _serve(settings: Settings, place: Place) -> int:
    """Return the exit code: 0 if the program closed the connection. Raises CodeagentError."""
    from codeagent.extensions.mcp.serve import (
        lines,
        server,  # the library takes most of a second to import
    )

    model, ended = CallingModel(), list[int]()
    runtime = await _opened(_offered(settings, model), replace(place, has_servers=False), model)

    async def open_agent() -> Runtime:
        return await _opened(settings, place, None)

    offer = server.Offer(
        runtime, model, None if settings.model is None else open_agent, place.redactor
    )
    try:
        serving = asyncio.ensure_future(server.serve(offer, lines.InputLines()))
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, _end, number, serving, ended)
        await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()
    except (OSError, ValueError) as error:
        raise CodeagentError(f"standard input cannot be read ({error})") from error
    finally:
        await runtime.close()
    return 128 + ended[0] if ended else 0


def _offered(settings: Settings, model: CallingModel) -> Settings:
    """Return the settings of the conversation for the calls: it has only the offered tools.

    Nothing else is started for it, such as other servers, one of which may be this program itself.
    Its calls cost nothing, so no budget in dollars can be counted; the agent's conversations have
    it.
    """
    from codeagent.extensions.mcp.serve.server import OFFERED  # as above

    changes: dict[str, Any] = {
        "model": model.name,
        "limits": replace(settings.limits, budget=None),
        "tools": (*settings.tools, tuple(sorted(OFFERED))),
        "toolsets": ToolsetSettings(),
    }
    return replace(settings, **changes)


async def _opened(settings: Settings, place: Place, model: CallingModel | None) -> Runtime:
    """Open a conversation with the sandbox that was asked for. Raises CodeagentError."""
    runtime = await open_runtime(
        settings,
        place,
        resume=None,
        tell=say,
        observer=lambda event: None,
        attended=False,
        open_model=None if model is None else model.open,
        recalls=model is None,
    )
    if runtime.sandbox is None:
        await runtime.close()
        raise CodeagentError(
            "nothing is offered: it needs a sandbox, or --sandbox off; see codeagent doctor"
        )
    return runtime


def _end(number: int, serving: asyncio.Future[None], ended: list[int]) -> None:
    ended.append(number)
    serving.cancel()
