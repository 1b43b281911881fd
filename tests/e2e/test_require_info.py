"""Any tool can be held back until the model has read its documentation: by the user's settings, or
by its own file."""

import re
from pathlib import Path

from tests.e2e.product import Done, Product, calls, read, results, say, text_of
from tests.fakes import put
from tests.table import for_each

PYTHON = '''
from codeagent import register_tool


@register_tool(approval="auto", effect="nothing", require_info=True)
def mine() -> str:
    """Answers."""
    return "answered"
'''
RENAMED = "name: look\nbuiltin: read\n"
NARROWED = "name: read\nbuiltin: true\nrequire_info: true\n"
READ = ("read", {"path": "a.txt"})


def set_up(product: Product, required: str = "", file: str = "", content: str = "") -> None:
    put(
        product.home,
        "config/codeagent/config.toml",
        f"[toolsets]\nrequire_info = {required}\n" if required else "",
    )
    for old in product.home.glob("config/codeagent/tools/*"):
        old.unlink()
    if file:
        put(product.home, f"config/codeagent/tools/{file}", content)


def kinds(done: Done) -> list[str | None]:
    return [result["error"] and result["error"]["kind"] for result in results(done.events)]


@for_each(
    "required, file, content, call",
    [
        ('["read"]', "", "", READ),
        ('["re?d", "wri*"]', "", "", READ),
        ('["read"]', "look.yaml", RENAMED, ("look", {"path": "a.txt"})),
        ("", "read.yaml", NARROWED, READ),
        ("", "mine.py", PYTHON, ("mine", {})),
        ("true", "mine.py", PYTHON, ("mine", {})),
        ('["mine"]', "mine.py", PYTHON.replace(", require_info=True", ""), ("mine", {})),
    ],
)
def test_a_call_waits_until_the_documentation_of_its_tool_was_read(
    product: Product, required: str, file: str, content: str, call: tuple[str, dict[str, str]]
) -> None:
    set_up(product, required, file, content)
    model = product.script(
        calls(call), calls(("info", {"name": call[0]})), calls(call), say("done")
    )
    done = product.run(model, "--output", "jsonl")
    assert (kinds(done), done.code) == (["skipped", None, None], 0)
    refused = results(done.events)[0]
    assert (refused["executed"], f'info(name="{call[0]}")' in text_of(refused)) == (False, True)


def test_other_tools_are_not_held_back(product: Product) -> None:
    set_up(product, '["bash"]')
    assert kinds(product.run(product.script(calls(READ), say("ok")), "--output", "jsonl")) == [None]


def test_without_the_tool_that_shows_it_the_call_is_refused(product: Product) -> None:
    set_up(product, '["read"]')
    done = product.run(
        product.script(calls(READ), say("ok")), "--tools", "read", "--output", "jsonl"
    )
    assert (kinds(done), done.code) == (["unavailable"], 4)
    assert "but info, which shows it, may not be used here" in text_of(results(done.events)[0])


def test_a_recipe_that_lists_such_a_tool_also_gets_the_one_that_shows_its_documentation(
    product: Product,
) -> None:
    set_up(product, '["read"]')
    put(product.workspace, ".codeagent/commands/look.md", "---\ntools: [read]\n---\nLook.\n")
    product.call("recipes", "trust")
    model = product.script(
        calls(read("a.txt")), calls(("info", {"name": "read"})), calls(read("a.txt")), say("ok")
    )
    done = product.call(
        "run", "--sandbox", "off", "--output", "jsonl", "--model", model, "--recipe", "look"
    )
    assert kinds(done) == ["skipped", None, None]


def test_a_misspelt_name_keeps_the_run_from_starting(product: Product) -> None:
    set_up(product, '["raed"]')
    done = product.run(product.script(say("never")))
    assert (done.code, done.out) == (2, "")
    assert "raed in require_info is not a tool; did you mean read?" in done.err


def test_the_how_to_is_true(product: Product) -> None:
    pages = Path(__file__).parents[2] / "docs/how-to"
    [settings] = re.findall(r"```toml\n(.*?)```", (pages / "tools.md").read_text(), re.DOTALL)
    words = re.findall(r"```python\n(.*?)```", (pages / "python-tools.md").read_text(), re.DOTALL)[
        0
    ]
    put(product.home, "config/codeagent/config.toml", settings)
    put(product.home, "config/codeagent/tools/words.py", words)
    done = product.run(
        product.script(calls(("count_words", {"text": "a"})), say("ok")), "--output", "jsonl"
    )
    assert (kinds(done), done.code) == (["skipped"], 0), done.err
