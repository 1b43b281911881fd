"""Sets of further tools, which the model lists and turns on."""

from codeagent.core.extension import Extension

EXTENSION = Extension(name="toolsets", about="sets of further tools, which the model turns on")
