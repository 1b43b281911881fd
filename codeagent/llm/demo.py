"""The demo's model: a script that finds and fixes the bug in the demo's project."""

from importlib.resources import files

from codeagent.llm.script import parse_script
from codeagent.llm.scripted import ScriptedModel


def demo_model() -> ScriptedModel:
    """The scripted model that fits `llm.demo_files`."""
    script = (files("codeagent.llm") / "demo.json").read_text(encoding="utf-8")
    return ScriptedModel(parse_script(script, "demo"), name="demo")
