"""`--safe` with settings that name what extensions bring: the run begins, and says what is not
there."""

from tests.e2e.product import Product, say
from tests.table import for_each

SETS = "[toolsets]\n{} = ['web']\n"
SAID = "toolsets.{}: set web is not available, because the extension web is switched off"


def settle(product: Product, text: str) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text)


@for_each(
    ("text", "said"),
    [
        (SETS.format("offer"), SAID.format("offer")),
        (SETS.format("use"), SAID.format("use")),
        ("[toolsets]\nrequire_info = ['web_fetch']\n", ""),
        ("[rules]\nallow = ['web_fetch(https://a.org*)', 'multi_edit']\n", ""),
        ("tools = ['read', 'web_fetch']\n", ""),
        ("[rules]\nallow = ['deploy']\n", "the rule deploy does not name a tool"),
    ],
)
def test_what_the_settings_say_about_sets_does_not_keep_a_safe_run_from_beginning(
    product: Product, text: str, said: str
) -> None:
    settle(product, text)
    done = product.run(product.script(say("hi")), "--safe")
    assert (done.code, done.out) == (0, "hi\n"), done.err
    assert said in done.err


def test_a_set_that_the_command_line_asks_for_is_refused_with_the_reason(product: Product) -> None:
    done = product.run(product.script(say("hi")), "--safe", "--toolset", "web")
    assert (done.code, done.out) == (2, "")
    assert "toolset web is not available: the extension web is switched off" in done.err


def test_a_denying_rule_that_no_tool_has_is_refused_also_in_a_safe_run(product: Product) -> None:
    settle(product, "[rules]\ndeny = ['bahs']\n")
    done = product.run(product.script(say("hi")), "--safe")
    assert (done.code, done.out) == (2, "")
    assert "the rule bahs does not name a tool" in done.err


def test_doctor_finds_nothing_wrong_with_a_rule_for_a_set_that_is_off(product: Product) -> None:
    settle(product, "[rules]\nallow = ['web_fetch']\n[extensions]\noff = ['web']\n")
    assert "does not name a tool" not in product.call("doctor").out
