"""Does before the first answer what its first rows would wait for: loading libraries, compiling a lexer."""

from codeagent.tui.rendering.markdown import render_markdown
from codeagent.tui.rendering.palette import Palette

_SAMPLE = "# a\n\n- b `c`\n\n| d |\n| - |\n| e |\n\n```python\nf = 1\n```\n"


def load() -> None:
    """Belongs into a thread, once there is something on screen."""
    render_markdown(_SAMPLE, 80, Palette())
