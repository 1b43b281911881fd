"""The built-in tools, each in a module of its own name."""

import pkgutil

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))
"""Every built-in tool that some conversation has, except those for jobs."""
