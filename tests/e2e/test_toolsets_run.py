"""Toolsets through the real command: a package's source, turned on by the model, by a flag and by a
resumed session."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.config.extensions import all_extensions
from tests.e2e.product import Done, Product, calls, of, results, say, text_of

SOURCE = """\
from pathlib import Path

from codeagent import Tool, ToolArgs, ToolResult


class WeatherArgs(ToolArgs):
    place: str = ""


class Weather(Tool[WeatherArgs]):
    name, label = "weather_today", "Weather"
    description = "Tell today's weather."
    Args = WeatherArgs
    permission, effect = "auto", "nothing"
    source, origin = "test", "many-sources 1.2"

    async def run(self, args, ctx):
        if args.place:
            with ctx.workspace.open(ctx.workspace.resolve(args.place)) as file:
                return ToolResult.from_text(file.read().decode())
        return ToolResult.from_text("it rains")


class Source:
    name = "weather"

    def __init__(self):
        self._tool = None
        self._listing = Listing(state="starting")

    async def start(self, changed):
        self._tool = Weather()
        self._listing = Listing((ListedTool("weather_today", "Tell today's weather."),), about="the weather")
        changed()

    def list(self):
        return self._listing

    def get(self, name):
        return self._tool

    async def close(self):
        Path("closed").touch()


from codeagent import Extension, LateSource
from codeagent.tools.source import ListedTool, Listing


def missing():
    import missing_module


def sources(context):
    return LateSource("weather", Source), LateSource("broken", missing)


EXTENSION = Extension(name="many", about="two sources", sources="many_sources:sources")
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[None]:
    """An installed package with a source that works and one that cannot be imported."""
    folder = tmp_path / "site"
    info = folder / "many_sources-1.2.dist-info"
    info.mkdir(parents=True)
    (folder / "many_sources.py").write_text(SOURCE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: many-sources\nVersion: 1.2\n")
    points = "[codeagent.extensions]\nmany = many_sources:EXTENSION\n"
    (info / "entry_points.txt").write_text(points)
    sys.path.insert(0, str(folder))
    all_extensions.cache_clear()
    yield
    sys.path.remove(str(folder))
    all_extensions.cache_clear()
    sys.modules.pop("many_sources", None)


ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("package")


def test_the_model_finds_a_set_turns_it_on_and_calls_its_tool(product: Product) -> None:
    model = product.script(
        calls(("toolset_list", {})),
        calls(("weather_today", {})),
        calls(("toolset_list", {"name": "weather"}), ("toolset_use", {"name": "weather"})),
        calls(("weather_today", {})),
        calls(("toolset_use", {"name": "wether"}), ("toolset_use", {"name": "broken"})),
        say("done"),
    )
    done = product.run(model, "--output", "jsonl")
    assert done.code == 0, done.err
    assert (product.workspace / "closed").exists()
    texts = [text_of(result) for result in results(done.events)]
    assert (
        "weather (" in texts[0] and "broken (failed, tried again later: No module named" in texts[0]
    )
    assert 'toolset_use(name="weather") turns it on' in texts[1]
    assert texts[2].splitlines() == [
        "weather (off, 1 tool): the weather",
        "- weather_today: Tell today's weather.",
    ]
    assert texts[4] == "it rains"
    assert (
        "did you mean weather" in texts[5]
        and "broken is not available: No module named" in texts[6]
    )
    told = [
        event["text"] for event in of(done.events, "notice") if event["code"] == "tools.problem"
    ]
    assert told == ["broken: No module named 'missing_module'; its tools are not in use"]


def test_what_was_on_is_on_again_in_a_resumed_session(product: Product) -> None:
    first = product.run(product.script(calls(("toolset_use", {"name": "weather"})), say("on")))
    assert first.code == 0, first.err
    model = product.script(calls(("weather_today", {})), say("done"))
    again = product.run(model, "--output", "jsonl", "--resume", product.sessions[-1].name)
    assert [text_of(result) for result in results(again.events)] == ["it rains"]


def test_a_set_is_turned_on_from_the_start_by_a_flag_and_by_the_settings(product: Product) -> None:
    model = product.script(calls(("weather_today", {})), say("done"))
    flagged = product.run(model, "--output", "jsonl", "--toolset", "weather")
    assert [text_of(result) for result in results(flagged.events)] == ["it rains"]
    folder = product.home / "config" / "codeagent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[toolsets]\nuse = ["weather"]\n')
    configured = product.run(model, "--output", "jsonl")
    assert [text_of(result) for result in results(configured.events)] == ["it rains"]
    unknown = product.run(model, "--toolset", "wether")
    assert unknown.code == 2 and "unknown toolset wether; did you mean weather?" in unknown.err


def test_a_tool_of_a_package_that_never_heard_of_secrets_reads_none_behind_a_link(
    product: Product,
) -> None:
    (product.workspace / ".env").write_text("TOKEN=1")
    (product.workspace / "oslo").symlink_to(".env")
    (product.workspace / "rome").symlink_to("a.txt")
    asked = (("weather_today", {"place": "oslo"}), ("weather_today", {"place": "rome"}))
    model = product.script(calls(*asked), say("done"))
    done = product.run(model, "--output", "jsonl", "--toolset", "weather")
    secret, plain = (text_of(result) for result in results(done.events))
    assert secret == (
        "oslo is a link, and .env looks like a file of secrets; ask for .env by its own name"
    )
    assert "this is a.txt" in plain


def test_only_allowed_tools_are_sent_and_run(product: Product) -> None:
    model = product.script(
        calls(
            ("weather_today", {}), ("bash", {"command": "touch made"}), ("read", {"path": "a.txt"})
        ),
        say("done"),
    )
    done = product.run(model, "--output", "jsonl", "--yes", "--tools", "read,weather_*")
    texts = [text_of(result) for result in results(done.events)]
    assert texts[0] == "it rains" and "this is a.txt" in texts[2]
    assert "bash is not among the tools that may be used here: read, weather_today" in texts[1]
    assert results(done.events)[1]["error"]["kind"] == "denied"
    assert not (product.workspace / "made").exists()


def test_a_project_may_only_tighten_the_list(product: Product) -> None:
    folder = product.workspace / ".codeagent"
    folder.mkdir()
    (folder / "config.toml").write_text('tools = ["read", "bash"]\n')
    model = product.script(
        calls(("bash", {"command": "ls"}), ("write", {"path": "b", "content": ""})), say("x")
    )
    done = product.run(model, "--output", "jsonl", "--yes", "--tools", "read,write")
    assert [result["error"]["kind"] for result in results(done.events)] == ["denied", "denied"]


def test_a_list_of_a_project_brings_in_no_set_that_the_user_did_not_name(product: Product) -> None:
    folder = product.workspace / ".codeagent"
    folder.mkdir()
    (folder / "config.toml").write_text('tools = ["read", "http_request", "send_message"]\n')

    def listed(*arguments: str) -> list[str]:
        return [
            tool["name"]
            for tool in json.loads(product.call("tools", "list", "--json", *arguments).out)
        ]

    assert listed() == ["read"]
    assert listed("--tools", "*") == ["read"]
    assert listed("--tools", "read,http_request") == ["read", "http_request"]


def test_a_name_in_the_list_that_is_no_tool_runs_nothing(product: Product) -> None:
    (
        product.workspace.parent / "site" / "many_sources-1.2.dist-info" / "entry_points.txt"
    ).write_text("")
    done = product.run(product.script(say("x")), "--tools", "read,bsh")
    assert (
        done.code == 2
        and "bsh in the list of allowed tools is not a tool; did you mean bash?" in done.err
    )
    assert product.sessions == []
    wrong = product.run(product.script(say("x")), "--tools", "bash(ls)")
    assert wrong.code == 2 and "is not a tool's name" in wrong.err


def test_the_list_and_the_sets_are_in_the_settings(product: Product) -> None:
    folder = product.home / "config" / "codeagent"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        'tools = ["read"]\n[toolsets]\nuse = ["weather"]\noffer = []\n'
    )
    shown = json.loads(product.call("config", "show").out)
    assert shown["tools"] == [["read"]]
    assert (shown["toolsets"]["use"], shown["toolsets"]["offer"]) == (["weather"], [])


def test_the_command_line_lists_the_sets_and_the_tools_of_one(product: Product) -> None:
    listed = json.loads(product.call("tools", "sets", "--json").out)
    assert [(one["name"], one["state"], one["tools"]) for one in listed] == [
        ("weather", "ready", 1),
        ("broken", "failed", 0),
    ]
    plain = product.call("tools", "sets")
    assert "weather" in plain.out and "broken: No module named" in plain.err
    assert product.call("tools", "sets", "weather").out == "weather_today  Tell today's weather.\n"
    assert "did you mean weather" in product.call("tools", "sets", "wether").err


def test_a_listed_tool_names_its_origin_and_its_set(product: Product) -> None:
    tools = json.loads(product.call("tools", "list", "--json", "--toolset", "weather").out)
    assert (tools[-1]["name"], tools[-1]["origin"], tools[-1]["toolset"]) == (
        "weather_today",
        "many-sources 1.2",
        "weather",
    )
    assert tools[0]["toolset"] == ""
    shown = product.call("tools", "list", "--tools", "read,weather_today").out
    assert "many-sources 1.2, toolset weather" in shown and "bash" not in shown
    assert product.call("tools", "run", "weather_today", "--toolset", "weather").out == "it rains\n"


def test_a_model_splits_a_set_once_and_what_is_no_partition_changes_nothing(
    product: Product,
) -> None:
    wrong = product.script(say('{"sets": [{"name": "a", "about": "x", "tools": []}]}'))
    refused = product.call("tools", "split", "weather", "--model", wrong)
    assert refused.code == 1 and "weather stays one set: it leaves out weather_today" in refused.err
    right = product.script(
        say('{"sets": [{"name": "today", "about": "the sky", "tools": ["weather_today"]}]}')
    )
    made = product.call("tools", "split", "weather", "--model", right)
    assert (
        made.code == 0
        and made.out.startswith("weather-today: 1 tool, the sky\n")
        and "tokens in" in made.out
    )
    stats = product.call("stats", "--all", "--json")
    assert (
        json.loads(stats.out)["turns"] == 2 and json.loads(stats.out)["usage"]["input_tokens"] > 0
    )
    again = product.call("tools", "split", "weather", "--model", wrong)
    assert (
        again.code == 0 and "weather is split, and has the same tools: weather-today" in again.out
    )
    model = product.script(
        calls(("toolset_use", {"name": "weather-today"})), calls(("weather_today", {})), say("done")
    )
    done = product.run(model, "--output", "jsonl")
    assert text_of(results(done.events)[1]) == "it rains"
    configured = product.run(model, "--output", "jsonl", "--toolset", "weather-today")
    assert text_of(results(configured.events)[1]) == "it rains"


def test_a_split_is_held_to_the_limits_and_holds_whatever_tools_are_allowed(
    product: Product,
) -> None:
    folder = product.home / "config" / "codeagent"
    folder.mkdir(parents=True)
    config = folder / "config.toml"
    whole = say('{"sets": [{"name": "today", "about": "the sky", "tools": ["weather_today"]}]}')
    cut_off = {"text": "{", "stop": "length"}
    config.write_text("[limits]\nmax_turns = 1\n")
    limited = product.call("tools", "split", "weather", "--model", product.script(cut_off, whole))
    assert limited.code == 1 and "weather stays one set: a limit was reached" in limited.err
    config.write_text("[limits]\nbudget = 0.5\n")
    uncounted = product.call(
        "tools", "split", "weather", "--model", "openai/own", "--api-base", "http://127.0.0.1:9/v1"
    )
    assert uncounted.code == 2 and "no price is known" in uncounted.err
    config.write_text('tools = ["read", "toolset_use"]\n')
    assert product.call("tools", "split", "weather", "--model", product.script(whole)).code == 0
    config.write_text("")
    assert "weather-today" in product.call("tools", "sets").out


GROUPS = """\
name: for readers
toolsets:
  - {name: sky, source: weather, about: what it is like outside, tools: ["weather_*"]}
"""


def test_a_project_groups_tools_once_it_is_trusted_and_turns_nothing_on(product: Product) -> None:
    file = product.workspace / ".codeagent" / "tools" / "sets.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(GROUPS)
    assert product.call("tools", "check", ".codeagent/tools/sets.yaml").out.endswith(
        "sets.yaml: toolset sky\n"
    )
    model = product.script(
        calls(("toolset_use", {"name": "sky"})), calls(("weather_today", {})), say("done")
    )
    unknown, _ = results(product.run(model, "--output", "jsonl").events)
    assert "unknown toolset 'sky'" in text_of(unknown)
    refused = product.run(model, "--toolset", "sky")
    assert (
        refused.code == 2
        and "unknown toolset sky" in refused.err
        and "not loaded: .codeagent" in refused.err
    )
    product.call("tools", "trust")
    used, called = results(product.run(model, "--output", "jsonl").events)
    assert "sky is on" in text_of(used) and text_of(called) == "it rains"
    listing = product.script(calls(("toolset_list", {})), calls(("weather_today", {})), say("done"))
    listed, off = results(product.run(listing, "--output", "jsonl").events)
    assert "sky (off, 1 tool): what it is like outside" in text_of(listed)
    assert 'toolset_use(name="weather") turns it on' in text_of(off)
    narrow = product.run(model, "--output", "jsonl", "--tools", "read,toolset_use")
    assert "is not among the tools that may be used here" in text_of(results(narrow.events)[1])
    assert "weather_today" in product.call("tools", "list", "--toolset", "sky").out


COUNTED = """
import sys, codeagent.cli
codeagent.cli.main(sys.argv[1:])
print("\\n".join(sys.modules))
"""


def test_a_run_without_toolsets_imports_none_of_their_tools(product: Product) -> None:
    command = (
        sys.executable,
        "-c",
        COUNTED,
        "run",
        "go",
        "--model",
        product.script(say("x")),
        "--sandbox",
        "off",
    )
    folders = {**product.environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=product.workspace, env=folders, capture_output=True, text=True, timeout=100
    )
    loaded = set(done.stdout.split())
    assert "codeagent.tools.toolsets" in loaded
    sets = {
        "misnamed",
        "builtin.toolset_list",
        "builtin.toolset_use",
        "grouping",
        "web",
        "mcp",
        "extra",
        "openapi",
    }
    assert loaded.isdisjoint(
        {
            *(f"codeagent.tools.{name}" for name in sets),
            "codeagent.extensions.toolsets.splits",
            "mcp",
        }
    )


def test_an_agent_has_the_tools_of_sets_that_its_file_names_while_its_parent_has_them_off(
    product: Product,
) -> None:
    child = product.script(calls(("weather_today", {})), say("so it rains", expect="it rains"))
    folder = product.home / "config" / "codeagent" / "agents"
    folder.mkdir(parents=True)
    head = f"---\nname: sky\ndescription: Knows the sky.\ntools: weather_*\nmodel: {child}\n---\n"
    (folder / "sky.md").write_text(f"{head}You look up.\n")
    task = ("agent", {"name": "sky", "task": "look"})
    model = product.script(
        calls(("toolset_use", {"name": "agents"})), calls(task, ("weather_today", {})), say("done")
    )
    done = product.run(model, "--output", "jsonl")
    texts = [text_of(one) for one in results(done.events) if one["agent"] == "main"]
    assert texts[1] == "so it rains" and 'toolset_use(name="weather") turns it on' in texts[2]


FETCH = ("web_fetch", {"url": "http://127.0.0.1:9/"})


def was_in_use(done: Done) -> bool:
    return "Tool not" not in text_of(results(done.events)[0])


def test_a_set_that_a_flag_turned_on_is_on_again_in_a_continued_session(product: Product) -> None:
    model = product.script(calls(FETCH), calls(("weather_today", {})), say("done"))
    for arguments in (
        ("--toolset", "web", "--toolset", "weather"),
        ("--continue",),
        ("--continue",),
    ):
        done = product.run(model, "--output", "jsonl", *arguments)
        assert was_in_use(done) and text_of(results(done.events)[1]) == "it rains", arguments


def test_a_set_that_was_turned_off_stays_off_until_a_flag_turns_it_on(product: Product) -> None:
    off = calls(("toolset_use", {"name": "web", "do": "off"}))
    assert product.run(product.script(off, say("off")), "--toolset", "web").code == 0
    model = product.script(calls(FETCH), say("done"))
    for arguments, on in (((), False), (("--toolset", "web"), True), ((), True)):
        done = product.run(model, "--output", "jsonl", "--continue", *arguments)
        assert was_in_use(done) == on, arguments


def test_a_set_that_only_the_settings_turned_on_is_gone_with_them(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[toolsets]\nuse = ["web"]\n')
    model = product.script(calls(FETCH), say("done"))
    assert was_in_use(product.run(model, "--output", "jsonl"))
    config.write_text("")
    assert not was_in_use(product.run(model, "--output", "jsonl", "--continue"))


def test_a_session_with_a_set_continues_with_every_extension_off(product: Product) -> None:
    model = product.script(say("hi"))
    assert product.run(model, "--toolset", "web").code == 0
    continued = product.run(model, "--continue", "--safe")
    assert (continued.code, continued.out) == (0, "hi\n")
    assert "warning: web: unknown toolset" in continued.err
