"""Tools of people's own files, through the real command: found, trusted, called, reloaded, reported
where broken."""

import json
from pathlib import Path

import pytest

from tests.e2e.product import Product, bash, calls, of, results, say, text_of

JOIN = '''\
from codeagent import register_tool


@register_tool(effect="nothing")
def f(xs: list[str], n: int | None = None) -> str:
    """Join the first words of a list.

    Args:
        xs: The words.
        n: How many of them; all where it is left out.
    """
    return "VERSION 1 " + " ".join(xs[:n])
'''


def own_folder(product: Product) -> Path:
    folder = product.home / "config" / "codeagent" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def project_folder(product: Product) -> Path:
    folder = product.workspace / ".codeagent" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def listed(product: Product, *arguments: str) -> list[str]:
    return [
        tool["name"] for tool in json.loads(product.call("tools", "list", "--json", *arguments).out)
    ]


def test_f1_no_two_tools_have_one_name(product: Product) -> None:
    (own_folder(product) / "a.py").write_text(JOIN)
    (own_folder(product) / "b.py").write_text(JOIN)
    names = listed(product)
    assert len(names) == len(set(names)) and "f" in names
    complaint = product.call("tools", "list", "--json").err
    assert "b.py:5" in complaint and "a.py:5" in complaint and "refused" in complaint


def test_f2_the_schema_of_a_function_is_its_signature(product: Product) -> None:
    (own_folder(product) / "join.py").write_text(JOIN)
    shown = json.loads(product.call("tools", "show", "f", "--json").out)
    assert shown["parameters"]["properties"]["xs"]["items"]["type"] == "string"
    assert shown["parameters"]["required"] == ["xs"]
    assert shown["source"] == "python" and shown["origin"].endswith("join.py:5")


def test_a_call_is_checked_asked_about_and_done(product: Product) -> None:
    (own_folder(product) / "join.py").write_text(JOIN)
    script = product.script(
        calls(("f", {"xs": "no list"})), calls(("f", {"xs": ["a", "b"], "n": 1})), say("ok")
    )
    done = product.run(script, "--yes", "--output", "jsonl")
    wrong, right = results(done.events)
    assert wrong["error"]["kind"] == "invalid_args" and not wrong["executed"]
    assert "Argument 'xs' for tool 'f'" in text_of(
        wrong
    ) and '"items":{"type":"string"}' in text_of(wrong)
    assert (text_of(right), right["approval"]) == ("VERSION 1 a", "flag")


def test_without_a_yes_it_is_denied(product: Product) -> None:
    (own_folder(product) / "join.py").write_text(JOIN)
    done = product.run(product.script(calls(("f", {"xs": ["a"]})), say("ok")), "--output", "jsonl")
    [result] = results(done.events)
    assert result["error"]["kind"] == "denied" and not result["executed"] and done.code == 4


def test_a_file_edited_during_a_run_is_taken_in_at_the_next_boundary(product: Product) -> None:
    path = own_folder(product) / "join.py"
    path.write_text(JOIN)
    edit = bash(f"sed -i 's/VERSION 1/VERSION 2/' {path}")
    both = calls(("f", {"xs": ["a"]}), edit, ("f", {"xs": ["b"]}))
    done = product.run(
        product.script(both, calls(("f", {"xs": ["c"]})), say("ok")), "--yes", "--output", "jsonl"
    )
    texts = [text_of(result) for result in results(done.events) if result["name"] == "f"]
    assert texts == ["VERSION 1 a", "VERSION 1 b", "VERSION 2 c"]
    [notice] = [event for event in of(done.events, "notice") if event["code"] == "tools.changed"]
    assert notice["data"]["changed"] == ["f"]


def test_a_file_that_breaks_during_a_run_disables_only_itself_and_says_where(
    product: Product,
) -> None:
    (own_folder(product) / "join.py").write_text(JOIN)
    (own_folder(product) / "other.py").write_text(JOIN.replace("def f(", "def other("))
    breaking = bash(f"echo 'def broken(:' >> {own_folder(product) / 'join.py'}")
    after = calls(("f", {"xs": ["a"]}), ("other", {"xs": ["b"]}))
    done = product.run(
        product.script(calls(breaking), after, say("ok")), "--yes", "--output", "jsonl"
    )
    gone, there = [result for result in results(done.events) if result["name"] in ("f", "other")]
    assert gone["error"]["kind"] == "not_found"
    assert text_of(there) == "VERSION 1 b"
    [problem] = [event for event in of(done.events, "notice") if event["code"] == "tools.problem"]
    line = JOIN.count("\n") + 1
    assert f"join.py:{line}" in problem["text"] and "not in use" in problem["text"]


def test_a_projects_file_runs_nothing_before_somebody_trusts_it(product: Product) -> None:
    marker = product.home / "ran"
    (project_folder(product) / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n{JOIN}")
    assert "f" not in listed(product)
    done = product.run(
        product.script(calls(("f", {"xs": ["a"]})), say("ok")), "--yes", "--output", "jsonl"
    )
    assert results(done.events)[0]["error"]["kind"] == "not_found"
    [notice] = [event for event in of(done.events, "notice") if event["code"] == "tools.untrusted"]
    assert notice["data"]["files"] == [".codeagent/tools/evil.py"]
    assert not marker.exists()
    trusting = product.run(
        product.script(calls(("f", {"xs": ["a"]})), say("ok")), "--yes", "--trust-project"
    )
    assert trusting.code == 0 and marker.exists()


def test_any_change_of_a_trusted_project_is_asked_about_again(product: Product) -> None:
    path = project_folder(product) / "join.py"
    path.write_text(JOIN)
    assert product.call("tools", "trust").code == 0
    assert "f" in listed(product)
    path.write_text(JOIN + "# one more byte\n")
    assert "f" not in listed(product)
    assert product.call("tools", "distrust").code == 0
    path.write_text(JOIN)
    assert "f" not in listed(product)


def test_a_users_folder_inside_the_workspace_is_not_loaded(product: Product) -> None:
    inside = product.workspace / "config"
    (inside / "codeagent" / "tools").mkdir(parents=True)
    (inside / "codeagent" / "tools" / "join.py").write_text(JOIN)
    done = product.call(
        "tools", "list", "--json", env=product.environment | {"XDG_CONFIG_HOME": str(inside)}
    )
    assert "f" not in [tool["name"] for tool in json.loads(done.out)]
    assert "the agent could change it" in done.err


@pytest.mark.parametrize("place", ["front", "end"])
def test_a_further_tool_changes_the_prompt_only_behind_its_place(
    product: Product, place: str
) -> None:
    own = own_folder(product)
    (own / "m.py").write_text(JOIN)
    before = product.call("prompt").out
    name = "a" if place == "front" else "z"
    (own / f"{name}.py").write_text(JOIN.replace("def f(", f"def {name}_words("))
    after = product.call("prompt").out
    line = f"- {name}_words: Join the first words of a list.\n"
    assert after.replace(line, "") == before
    assert before.startswith(after[: after.index(line)])


def test_a_built_in_tool_is_refused_while_the_file_that_narrows_it_is_broken(
    product: Product,
) -> None:
    file = own_folder(product) / "bash.yaml"
    text = "name: bash\nbuiltin: true\nrestrictions: {comands: [echo]}\n"
    file.write_text(text)
    repair = f"sed -i s/comands/commands/ {file}"
    model = product.script(calls(bash(repair)), say("I cannot"))
    done = product.run(model, "--yes", "--output", "jsonl")
    [refused] = results(done.events)
    assert refused["error"]["kind"] == "denied"
    assert f"bash is refused until {file}:3: restrictions.comands is fixed: no such key" in text_of(
        refused
    )
    assert file.read_text() == text
    assert "bash" not in listed(product)
    assert "bash is refused until this is fixed" in product.call("tools", "list").err
    file.write_text(text.replace("comands", "commands"))
    allowed, denied = results(
        product.run(
            product.script(calls(bash("echo 1"), bash("id")), say("so")),
            "--yes",
            "--output",
            "jsonl",
        ).events
    )
    assert (allowed["error"], denied["error"]["kind"]) == (None, "denied")
