"""Through the real command line: notes, memory, and outputs that outlive their
session."""

import json
import re

from tests.e2e.product import Event, Product, bash, calls, of, results, say, text_of

CANARY = "sk-canary-0123456789"


def note(action: str, **arguments: object) -> tuple[str, dict[str, object]]:
    return "scratchpad", {"action": action, **arguments}


def answers(
    product: Product, *wanted: tuple[str, dict[str, object]], resume: str = "", flags: str = ""
) -> list[Event]:
    """The results of a run that makes these calls, in their order."""
    going_on = ("--resume", resume) if resume else ()
    model = product.script(calls(*wanted), say("ok"))
    done = product.run(
        model, "--output", "jsonl", *going_on, *flags.split(), prompt="make the calls"
    )
    assert done.code == 0
    order = [event["call_id"] for event in of(done.events, "tool.call")]
    return sorted(results(done.events), key=lambda result: order.index(result["call_id"]))


def said(product: Product, *wanted: tuple[str, dict[str, object]], resume: str = "") -> str:
    return text_of(answers(product, *wanted, resume=resume)[0])


def test_f28_notes_of_a_session_are_there_when_it_goes_on_and_in_no_other(product: Product) -> None:
    said(product, note("set", key="plan", value="one"))
    session = product.sessions[0].name
    assert said(product, note("get", key="plan"), resume=session) == "one"
    assert said(product, note("list")) == "(no notes)"


def test_f28_notes_of_the_project_are_there_in_every_session_here_and_nowhere_else(
    product: Product,
) -> None:
    for line in ("one", "two"):
        said(product, note("append", key="log", value=line, project=True))
    assert said(product, note("get", key="log", project=True)) == "one\ntwo"
    elsewhere = Product(product.workspace / "sub", product.home)
    elsewhere.workspace.mkdir()
    assert said(elsewhere, note("list", project=True)) == "(no notes)"


def test_f28_a_note_that_does_not_fit_is_an_error_the_model_can_go_on_from(
    product: Product,
) -> None:
    (result,) = answers(product, note("set", key="a", value="x" * 40_000))
    assert result["error"]["kind"] == "failed"
    assert "nothing was changed" in text_of(result) and "at most 32000" in text_of(result)


def test_f28_plan_mode_may_take_notes(product: Product) -> None:
    (result,) = answers(product, note("set", key="a", value="b"), flags="--mode plan")
    assert not result["is_error"]


def test_f28_earlier_sessions_of_this_workspace_are_searched_without_their_results(
    product: Product,
) -> None:
    ripe = product.script(calls(bash("echo pine-$((1+1))apple")), say("The pineapple is ripe."))
    product.run(ripe, "--yes", prompt="find it")
    product.run(product.script(say("nothing")), prompt="Where did the PINEAPPLE go?")
    wanted = [("search_memory", {"query": words}) for words in ("pineapple", "pine-2apple", "find")]
    found, of_output, of_prompt = map(text_of, answers(product, *wanted))
    lines = found.splitlines()
    assert (
        "user: Where did the PINEAPPLE go?" in lines[0]
        and "you: The pineapple is ripe." in lines[1]
    )
    assert {line.split()[0] for line in lines[:-1]} < {folder.name for folder in product.sessions}
    assert lines[2:] == ["[2 earlier sessions of this workspace looked through.]"]
    assert of_output.startswith("[Nothing found.")
    assert "user: find it" in of_prompt


def test_t34_no_secret_is_in_a_note(product: Product) -> None:
    model = product.script(
        calls(
            note("set", key="a", value=CANARY), note("append", key=CANARY, value="b", project=True)
        ),
        say("ok"),
    )
    arguments = ("run", "go", "--model", model, "--sandbox", "off")
    product.call(*arguments, env=product.environment | {"MY_TOKEN": CANARY})
    files = [path for path in (product.home / "state").rglob("*") if path.is_file()]
    assert any(path.name == "scratchpad.json" for path in files)
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]


def cut_output(product: Product, command: str) -> tuple[str, str]:
    """The handle of what the command printed, and the session."""
    (result,) = answers(product, bash(command), flags="--yes")
    handle = re.search(r'output_read\(id="([^"]+)"', text_of(result))
    assert handle is not None
    return handle[1], product.sessions[0].name


def test_f29_every_character_of_one_long_line_can_be_reached_also_when_the_session_goes_on(
    product: Product,
) -> None:
    handle, session = cut_output(product, "seq -s, 1 20000; printf '\\377\\0bin'")
    line, column = "", 1
    while not line.endswith("20000"):
        text = said(
            product, ("output_read", {"id": handle, "offset": 1, "column": column}), resume=session
        )
        piece, _, where = text.rpartition("\n")
        assert where.startswith(f"[Characters {column}-")
        line, column = line + piece, column + len(piece)
    assert line == ",".join(map(str, range(1, 20001)))
    assert said(product, ("output_read", {"id": handle, "offset": 2}), resume=session).startswith(
        "\\xffbin\n"
    )


def test_f29_a_page_is_not_cut_again(product: Product) -> None:
    handle, session = cut_output(product, f"for i in $(seq 1 3000); do echo $i {'x' * 100}; done")
    text = said(product, ("output_read", {"id": handle, "lines": 500}), resume=session)
    assert len(text) > 50_000
    assert text.endswith("[Lines 1-500 of 3000. Continue with offset=501.]")


def test_f29_the_stored_event_of_a_cut_result_is_never_written_again(product: Product) -> None:
    _, session = cut_output(product, "seq 1 100000")
    before = json.dumps(results(product.log())[0])
    product.run(product.script(say("ok")), "--resume", session)
    assert json.dumps(results(product.log())[0]) == before


KEEPS = '''from codeagent import ToolContext, register_tool

@register_tool(approval="auto")
def keeps(value: str, ctx: ToolContext) -> str:
    """Keeps a value and says whose it is."""
    ctx.scratchpad.set("kept", value)
    return f"{ctx.agent} {ctx.session_id} {ctx.call_id}"
'''


def test_a_tool_of_the_users_knows_its_session_its_agent_and_the_notes(product: Product) -> None:
    path = product.home / "config/codeagent/tools/keeps.py"
    path.parent.mkdir(parents=True)
    path.write_text(KEEPS)
    (result,) = answers(product, ("keeps", {"value": "one"}))
    session = product.sessions[0].name
    assert text_of(result) == f"main {session} {result['call_id']}"
    assert said(product, note("get", key="kept"), resume=session) == "one"
