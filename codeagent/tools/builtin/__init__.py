"""The built-in tools, each in a module of its own name."""

import pkgutil

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))
"""Of every tool that some conversation has, but for those of jobs."""
