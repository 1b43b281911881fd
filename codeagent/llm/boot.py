"""What must hold around the import of litellm: nothing fetched, nothing read, nothing printed, nothing slow."""

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
}
"""Read by litellm at import: its price map comes from the package and not from the network, and no
`.env` file of the directory we run in, which may be anybody's repository, is loaded."""


def set_environment() -> None:
    os.environ.update(ENVIRONMENT)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection meanwhile, and none later of what was made meanwhile.

    litellm's import makes some million objects that live for ever; walking them again and again is
    a third of its time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def quiet(library: Any) -> None:
    """The library prints nothing, on any stream."""
    library.suppress_debug_info = True
    library.telemetry = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
