"""The built-in tools, each in a module of its own name."""

import pkgutil

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))
"""Every built-in tool of any conversation, except those for jobs."""
