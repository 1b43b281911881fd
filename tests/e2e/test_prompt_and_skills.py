"""Through the real command line: the prompt, the tools array, skills and info."""

import json

import pytest

from tests.e2e.product import Event, Product, calls, of, results, say, text_of
from tests.fakes import put

TOOL = '''from codeagent import register_tool


@register_tool{options}
def {name}(text: str) -> str:
    """Says the text in the manner of {name}.

    Args:
        text: What to say.
    """
    return text
'''
SKILL = "---\nname: {name}\ndescription: How we {name}\n---\n\nFirst step of {name}.\n"


def add_tool(product: Product, name: str, options: str = "") -> None:
    put(product.home, f"config/codeagent/tools/{name}.py", TOOL.format(name=name, options=options))


def add_skill(product: Product, name: str) -> None:
    put(product.workspace, f".codeagent/skills/{name}/SKILL.md", SKILL.format(name=name))


def answers(product: Product) -> list[Event]:
    """The results in the order of their calls."""
    log = product.log()
    order = [event["call_id"] for event in of(log, "tool.call")]
    return sorted(results(log), key=lambda result: order.index(result["call_id"]))


def definitions(product: Product) -> list[str]:
    tools = json.loads(product.call("tools", "list", "--json").out)
    return [
        json.dumps({key: tool[key] for key in ("name", "description", "parameters")})
        for tool in tools
    ]


def test_f27_the_prompt_is_the_same_from_turn_to_turn_and_from_run_to_run(product: Product) -> None:
    add_skill(product, "release")
    add_tool(product, "alpha")
    first = product.call("prompt").out
    model = product.script(calls(("info", {"name": "release"})), say("ok"))
    assert product.run(model).code == 0
    assert product.call("prompt").out == first
    assert product.call("prompt", "--hash").out == product.call("prompt", "--hash").out


def test_f27_one_more_tool_changes_only_what_stands_behind_its_place(product: Product) -> None:
    (product.workspace / "AGENTS.md").write_text("Use tabs.\n")
    add_skill(product, "release")
    prompt, tools = product.call("prompt").out, definitions(product)
    for count, name in enumerate(("alpha", "beta", "gamma", "omega")):
        add_tool(product, name)
        longer, more = product.call("prompt").out, definitions(product)
        line = longer.index(f"- {name}: Says the text in the manner of {name}.")
        end = line if count else longer.index("# Tools")
        assert longer[:end].encode() == prompt[:end].encode()
        (place,) = (number for number, one in enumerate(more) if f'"name": "{name}"' in one)
        assert more[:place] + more[place + 1 :] == tools
        assert longer.endswith(prompt[prompt.index("# Skills") :])
        prompt, tools = longer, more


def test_f27_info_tells_all_about_a_skill_and_the_closest_names_where_there_is_none(
    product: Product,
) -> None:
    add_skill(product, "release")
    assert "- release: How we release" in product.call("prompt").out
    product.run(
        product.script(
            calls(("info", {"name": "release"}), ("info", {"name": "relaese"})), say("ok")
        )
    )
    told, unknown = answers(product)
    assert text_of(told).startswith(
        "# Skill release (.codeagent/skills/release/SKILL.md)\n\nFirst step of release."
    )
    assert (unknown["error"]["kind"], "did you mean release" in text_of(unknown)) == (
        "not_found",
        True,
    )


def test_f27_a_users_skill_is_offered_everywhere_with_its_files(product: Product) -> None:
    put(product.home, "config/codeagent/skills/mine/SKILL.md", SKILL.format(name="mine"))
    put(product.home, "config/codeagent/skills/mine/notes.md", "the notes")
    put(product.home, "config/codeagent/config.toml", 'model = "demo"\n')
    wanted = ("mine", "mine/notes.md", "mine/../../config.toml", "mine//etc/passwd")
    product.run(product.script(calls(*(("info", {"name": name}) for name in wanted)), say("ok")))
    given = answers(product)
    found = [text_of(result) for result in given]
    assert (
        "First step of mine." in found[0] and 'opened with info("mine/FILE"):\nnotes.md' in found[0]
    )
    assert found[1] == "the notes"
    assert [result["error"]["kind"] for result in given[2:]] == ["denied", "not_found"]


def test_f27_info_is_offered_only_where_there_is_something_to_tell(product: Product) -> None:
    assert not any('"name": "info"' in one for one in definitions(product))
    add_skill(product, "release")
    assert any('"name": "info"' in one for one in definitions(product))


def test_f27_a_broken_skill_is_named_with_file_and_line_and_the_rest_works(
    product: Product,
) -> None:
    put(
        product.workspace,
        ".codeagent/skills/broken/SKILL.md",
        "---\nname: b\ndescription: a: b\n---\n",
    )
    add_skill(product, "release")
    done = product.call("prompt")
    assert (done.code, "- release:" in done.out) == (0, True)
    assert ".codeagent/skills/broken/SKILL.md:3: the front matter is not YAML" in done.err


@pytest.mark.parametrize("where", ["AGENTS.md", ".codeagent/skills/tricky/SKILL.md"])
def test_t40_hidden_characters_reach_nobody_unseen(product: Product, where: str) -> None:
    put(product.workspace, where, SKILL.format(name="tricky") + "do\u202e it\U000e0041\n")
    model = product.script(calls(("info", {"name": "tricky"})), say("ok"))
    done = product.call("prompt")
    product.run(model)
    assert f"{where}:7: invisible characters" in done.err
    assert "\u202e" not in done.out + text_of(answers(product)[0])
