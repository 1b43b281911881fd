"""Sets of tools are turned on behind all others; a source that fails is told, passed over and tried
again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.app.sources import _built_in_sets
from codeagent.config.extensions import all_extensions, built_in_sets
from codeagent.config.settings import Settings
from codeagent.core.patterns import AllowList
from codeagent.core.policy import Rule
from codeagent.core.tool import Denied, Failed, InvalidArgs, NotFound, ToolError
from codeagent.tools import source as module
from codeagent.tools.choices import Choice
from codeagent.tools.source import BuiltInSet, LateSource, Listing, ToolSource
from codeagent.tools.toolsets import MOST_AT_ONCE, MOST_IN_USE, Toolsets
from tests.table import for_each
from tests.tools.catalog_setting import Plain, Setting
from tests.tools.toolset_setting import Source, catalog_of, names

Open = Callable[..., Toolsets]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Makes sets whose sources have begun, and closes them."""
    every: list[Toolsets] = []

    def make(*sources: ToolSource, on: tuple[str, ...] = ()) -> Toolsets:
        every.append(Toolsets(sources, map(Choice, on)))
        every[-1].sources.begin()
        return every[-1]

    yield make
    for toolsets in every:
        await toolsets.sources.close()


async def test_nothing_of_a_set_is_in_use_before_it_is_turned_on(opened: Open) -> None:
    toolsets = opened(Source("hub", "one", "two"))
    catalog = catalog_of(toolsets)
    await toolsets.available.ready("hub")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash"]
    [facts] = catalog.now.toolsets
    assert (facts.name, facts.state, facts.about, facts.tools, facts.in_use) == (
        "hub",
        "ready",
        "about hub",
        2,
        0,
    )


async def test_a_set_is_turned_on_at_the_next_look_behind_all_others(opened: Open) -> None:
    toolsets = opened(Source("hub", "one", "two"), Source("lab", "three"))
    catalog = catalog_of(toolsets)
    before = catalog.definitions()
    await toolsets.use("lab")
    await toolsets.use("hub")
    assert catalog.definitions() == before
    change = await catalog.refresh()
    assert names(catalog) == ["read", "bash", "three", "one", "two"]
    assert change is not None and change.added == ("three", "one", "two")
    assert catalog.definitions()[:2] == before and [tool.name for tool in catalog.always] == [
        "read",
        "bash",
    ]
    assert {tool.name: tool.toolset for tool in catalog.now.tools}["one"] == "hub"


async def test_only_some_tools_of_a_set_can_be_turned_on(opened: Open) -> None:
    toolsets = opened(Source("hub", "one", "two", "three"))
    catalog = catalog_of(toolsets)
    choice, picked = await toolsets.use("hub", ["three", "one"])
    await catalog.refresh()
    assert names(catalog)[2:] == ["one", "three"]
    assert (choice.details, [tool.name for tool in picked]) == (
        {"toolset": "hub", "tools": ["three", "one"]},
        ["three", "one"],
    )


async def test_a_set_that_is_too_large_is_turned_on_by_the_names_of_its_tools(opened: Open) -> None:
    toolsets = opened(Source("big", *(f"tool_{n}" for n in range(MOST_AT_ONCE + 1))))
    with pytest.raises(InvalidArgs, match=f"{MOST_AT_ONCE + 1} tools: name at most {MOST_AT_ONCE}"):
        await toolsets.use("big")
    catalog = catalog_of(toolsets)
    await toolsets.use("big", ["tool_7"])
    await catalog.refresh()
    assert names(catalog)[2:] == ["tool_7"]


async def test_no_more_tools_are_on_than_providers_take(opened: Open) -> None:
    source = Source("big", *(f"tool_{n}" for n in range(MOST_IN_USE + 5)))
    toolsets = opened(source, on=("big",))
    catalog = catalog_of(toolsets)
    await toolsets.first_ready()
    await catalog.refresh()
    assert len(names(catalog)) == 2 + MOST_IN_USE
    assert f"at most {MOST_IN_USE}" in catalog.now.problems[0].text
    with pytest.raises(Failed, match="name fewer"):
        await toolsets.use("big", [f"tool_{MOST_IN_USE + 1}"])


async def test_what_does_not_exist_is_an_error_with_the_nearest_name(opened: Open) -> None:
    toolsets = opened(Source("github", "search_issues"), Source("lab"))
    with pytest.raises(NotFound, match="unknown toolset 'gihub'; did you mean github"):
        await toolsets.use("gihub")
    with pytest.raises(NotFound, match="no tool 'search_issue'; did you mean search_issues"):
        await toolsets.use("github", ["search_issue"])


async def test_a_call_of_a_tool_that_is_off_says_how_to_turn_it_on(opened: Open) -> None:
    toolsets = opened(Source("hub", "one"))
    catalog = catalog_of(toolsets)
    await toolsets.available.ready("hub")
    with pytest.raises(
        NotFound, match=r'one is in the toolset hub; toolset_use\(name="hub"\) turns it on'
    ):
        catalog.get("one")


async def test_a_source_that_fails_is_a_problem_and_the_others_are_not_held_up(
    opened: Open,
) -> None:
    toolsets = opened(Source("down", "one", fails=9), Source("hub", "two"), on=("down", "hub"))
    catalog = catalog_of(toolsets)
    await toolsets.first_ready()
    change = await catalog.refresh()
    assert names(catalog) == ["read", "bash", "two"]
    assert change is not None and [str(problem) for problem in change.problems] == [
        "down: it is down"
    ]
    down = catalog.now.toolsets[0]
    assert (down.name, down.state, down.reason) == ("down", "failed", "it is down")
    with pytest.raises(Failed, match="down is not available: it is down"):
        await toolsets.use("down")


async def test_a_source_that_raises_at_its_start_has_failed(opened: Open) -> None:
    def broken() -> ToolSource:
        raise RuntimeError("no module of that name")

    toolsets = opened(LateSource("late", broken), Source("hub", "two"))
    with pytest.raises(Failed, match="no module of that name"):
        await toolsets.use("late")


async def test_a_source_that_failed_is_started_again_later_and_at_once_if_it_is_asked_for(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source("hub", "one", fails=1)
    toolsets = opened(source, on=("hub",))
    catalog = catalog_of(toolsets)
    await toolsets.first_ready()
    await catalog.refresh()
    assert names(catalog) == ["read", "bash"]
    await toolsets.available.ready("hub")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one"] and source.starts == 2

    monkeypatch.setattr(module, "_FIRST_DELAY", 0.0)
    by_itself = Source("lab", "two", fails=3)
    toolsets.sources.add(by_itself)
    await by_itself.ready.wait()
    assert by_itself.starts == 4


async def test_tools_in_use_keep_their_place_while_their_source_is_away(opened: Open) -> None:
    source = Source("hub", "one")
    toolsets = opened(source, Source("lab", "two"), on=("hub", "lab"))
    catalog = catalog_of(toolsets)
    await toolsets.first_ready()
    await catalog.refresh()
    before = catalog.definitions()
    source.fail()
    await catalog.refresh()
    assert catalog.definitions() == before
    source.have("one", "more")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "one", "two", "more"]
    source.have("more")
    change = await catalog.refresh()
    assert names(catalog) == ["read", "bash", "two", "more"]
    assert change is not None and change.removed == ("one",)


async def test_the_first_tool_of_a_name_keeps_it(opened: Open, tmp_path: Any) -> None:
    setting = Setting(tmp_path)
    toolsets = opened(Source("hub", "one", "read"), Source("lab", "one"), on=("hub",))
    catalog = setting.catalog(toolsets=toolsets)
    await toolsets.first_ready()
    await catalog.refresh()
    await toolsets.use("lab")
    setting.write("user", "a.txt", "one two")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "two", "one"]
    assert catalog.get("one").origin == "hub"
    told = sorted(problem.text for problem in catalog.now.problems)
    assert [text.partition(" is refused")[0] for text in told] == [
        f"the tool one of {setting.user}/a.txt:1",
        "the tool one of lab",
        "the tool read of test",
    ]
    assert toolsets.taken(toolsets.available.all()["lab"], "one") and not toolsets.taken(
        toolsets.available.all()["hub"], "one"
    )


async def test_a_set_that_was_on_is_on_again_in_the_same_order(opened: Open) -> None:
    toolsets = opened(Source("a", "one"), Source("b", "two", "three"))
    details = [
        (await toolsets.use("b", ["three"]))[0].details,
        (await toolsets.use("a"))[0].details,
    ]
    catalog = catalog_of(toolsets)
    resumed = Toolsets([Source("a", "one"), Source("b", "two", "three")])
    for one in [*details, {"toolset": 3}]:
        resumed.restore(one)
    again = catalog_of(resumed)
    resumed.sources.begin()
    await resumed.first_ready()
    await again.refresh()
    assert names(again) == names(catalog) == ["read", "bash", "three", "one"]
    await resumed.sources.close()


async def test_a_set_that_was_on_and_is_gone_is_a_problem() -> None:
    toolsets = Toolsets([Source("github", "one")])
    toolsets.restore({"toolset": "gitlab", "tools": []})
    assert [str(problem) for problem in catalog_of(toolsets).now.problems] == [
        "gitlab: unknown toolset; did you mean github?"
    ]


async def test_the_first_request_waits_only_for_what_was_turned_on_before(opened: Open) -> None:
    toolsets = opened(Source("slow", "one", held=True), Source("hub", "two"), on=("hub",))
    await toolsets.first_ready()
    catalog = catalog_of(toolsets)
    assert names(catalog) == ["read", "bash", "two"]
    assert [one.state for one in catalog.now.toolsets] == ["starting", "ready"]


async def test_a_source_that_waits_is_started_once_it_is_asked_for(opened: Open) -> None:
    waiting, wanted = Source("waiting", "one", waiting=True), Source("wanted", "two", waiting=True)
    toolsets = opened(waiting, wanted, on=("wanted",))
    await toolsets.first_ready()
    assert (waiting.starts, wanted.starts) == (0, 1)
    await toolsets.use("waiting")
    assert waiting.starts == 1


async def test_a_built_in_set_is_made_once_somebody_asks_for_it(opened: Open) -> None:
    made: list[str] = []

    def make() -> list[Plain]:
        made.append("made")
        return [Plain("fetch")]

    toolsets = opened(BuiltInSet("web", "fetch pages", ("fetch",), make))
    catalog = catalog_of(toolsets)
    assert catalog.complete and catalog.unknown([Rule.parse("fetch", "deny")]) == () and made == []
    await toolsets.use("web")
    await catalog.refresh()
    assert names(catalog) == ["read", "bash", "fetch"] and made == ["made"]


async def test_rules_are_not_judged_before_every_source_has_told_its_tools(opened: Open) -> None:
    source = Source("hub", "deploy", held=True)
    toolsets = opened(source)
    catalog = catalog_of(toolsets)
    assert not catalog.complete
    source.release.set()
    await toolsets.available.ready("hub")
    assert catalog.complete
    assert catalog.unknown([Rule.parse("deploy", "deny")]) == ()
    assert catalog.unknown([Rule.parse("deplyo", "deny")]) == (
        "the rule deplyo does not name a tool; did you mean deploy?",
    )


async def test_of_two_sources_with_one_name_the_first_is_used_and_the_other_is_a_problem(
    opened: Open,
) -> None:
    first, second = Source("hub", "one"), Source("hub", "two")
    toolsets = opened(first, second, Source("lab", "three"))
    catalog = catalog_of(toolsets)
    await toolsets.use("hub")
    change = await catalog.refresh()
    assert (names(catalog)[2:], second.starts) == (["one"], 0)
    assert [str(one) for one in catalog.now.problems] == [
        "hub: two sources of tools have this name: the first is used"
    ]
    toolsets.sources.add(Source("lab"))
    change = await catalog.refresh()
    assert change is not None and [one.where for one in change.problems] == ["lab"]


@for_each("name", sorted(built_in_sets()))
def test_no_source_takes_the_name_of_a_built_in_set_whether_that_is_offered_or_not(
    name: str,
) -> None:
    toolsets = Toolsets([Source(name, "fetch"), Source("hub", "issues")])
    assert list(toolsets.available.all()) == ["hub"]
    assert [str(one) for one in toolsets.problems()] == [
        f"{name}: a built-in set has this name, so it is not used; give it another name"
    ]


def test_the_names_that_are_kept_free_are_those_of_the_built_in_sets() -> None:
    dependencies: Any = SimpleNamespace(settings=Settings(), extensions=all_extensions())
    assert {one.name for one in _built_in_sets(dependencies)} == built_in_sets()


async def test_closing_ends_every_source_also_one_that_is_starting_and_if_it_is_cancelled() -> None:
    sources = [Source("slow", held=True), Source("ready", "one"), Source("down", fails=9)]
    toolsets = Toolsets(sources)
    toolsets.sources.begin()
    await toolsets.available.ready("ready")
    closing = asyncio.create_task(toolsets.sources.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert [source.closed for source in sources] == [1, 1, 1]
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("tools of")]


_ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["use", "fail", "have", "more", "look", "some"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=20,
)


@given(actions=_ACTIONS)
@settings(max_examples=60, deadline=None)
def test_in_any_order_what_the_model_was_told_before_stays_a_prefix(
    actions: list[tuple[str, int, int]],
) -> None:
    """Sources share some names, fail and come back, get more tools, and are turned on, in any
    order."""

    async def play() -> None:
        pool = [["a", "b", "x"], ["c", "x", "d"], ["x", "e", "a"]]
        sources = [Source(f"s{n}", *tools[:2]) for n, tools in enumerate(pool)]
        toolsets = Toolsets(sources)
        toolsets.sources.begin()
        catalog = catalog_of(toolsets)
        told, owners, log = catalog.definitions(), {tool.name: tool.origin for tool in catalog}, []
        for what, which, count in [*actions, ("look", 0, 0)]:
            source = sources[which]
            match what:
                case "use" | "some":
                    try:
                        choice, _ = await toolsets.use(
                            source.name, pool[which][:count] if what == "some" else ()
                        )
                        log.append(choice.details)
                    except ToolError:
                        pass
                case "fail":
                    source.fail()
                case "have":
                    source.have(*pool[which][:2])
                case "more":
                    source.have(*pool[which])
                case _:
                    await catalog.refresh()
                    now = catalog.definitions()
                    has = {(tool.name, one.name) for one in sources for tool in one.list().tools}
                    away = {one.name for one in sources if one.list().state != "ready"}
                    lost = {
                        name
                        for name, by in owners.items()
                        if by and (name, by) not in has and by not in away
                    }
                    stays = [one for one in told if one.name not in lost]
                    assert stays == list(now[: len(stays)])
                    kept = {tool.name: tool.origin for tool in catalog}
                    assert all(kept[one.name] == owners[one.name] for one in stays)
                    told, owners = now, kept
        resumed = Toolsets(
            [
                Source(f"s{n}", *(tool.name for tool in one.list().tools))
                for n, one in enumerate(sources)
            ]
        )
        for details in log:
            resumed.restore(details)
        resumed.sources.begin()
        await resumed.first_ready()
        again = catalog_of(resumed)
        assert names(again)[:2] == ["read", "bash"] and len(set(names(again))) == len(names(again))
        if not any(what in ("fail", "have", "more") for what, *_ in actions):
            assert again.definitions() == catalog.definitions()
        await toolsets.sources.close()
        await resumed.sources.close()

    asyncio.run(play())


async def test_a_tool_that_is_not_allowed_is_not_listed_not_sent_and_refused(opened: Open) -> None:
    toolsets = Toolsets(
        [Source("hub", "one", "two")], allow=AllowList((("read", "toolset_use", "o*"),))
    )
    toolsets.sources.begin()
    catalog = catalog_of(toolsets)
    await toolsets.use("hub")
    await catalog.refresh()
    assert [one.name for one in catalog.definitions()] == ["read", "one"]
    assert [tool.name for tool in toolsets.available.all()["hub"].tools] == ["one"]
    for name in ("two", "bash"):
        with pytest.raises(
            Denied, match=f"{name} is not among the tools that may be used here: read, one"
        ):
            catalog.get(name)
    with pytest.raises(NotFound):
        catalog.get("zzz")
    await toolsets.sources.close()


async def test_what_is_allowed_of_sets_is_on_from_the_start_if_the_model_may_not_turn_it_on() -> (
    None
):
    slow, waiting = Source("slow", "three", held=True), Source("waiting", "one", waiting=True)
    toolsets = Toolsets(
        [Source("hub", "one", "two"), waiting, slow], allow=AllowList((("read", "tw*", "three"),))
    )
    catalog = catalog_of(toolsets)
    toolsets.sources.begin()
    slow.release.set()
    await toolsets.first_ready()
    await catalog.refresh()
    assert names(catalog) == ["read", "two", "three"]
    await toolsets.sources.close()


async def test_a_list_of_tools_that_are_always_there_starts_and_awaits_no_source() -> None:
    waiting, slow = Source("waiting", "one", waiting=True), Source("slow", "two", held=True)
    toolsets = Toolsets([waiting, slow], allow=AllowList((("read",),)))
    catalog = catalog_of(toolsets)
    toolsets.sources.begin()
    await toolsets.first_ready()
    assert names(catalog) == ["read"] and waiting.starts == 0
    await toolsets.sources.close()


def test_an_allowed_tool_that_does_not_exist_is_told_with_the_nearest_name() -> None:
    catalog = catalog_of(Toolsets(allow=AllowList((("read", "bsh"),))))
    assert catalog.complete
    assert catalog.unknown([]) == ()
    assert catalog.names.misnamed([]) == (
        "bsh in the list of allowed tools is not a tool; did you mean bash?",
    )


class Unruly(Source):
    """A package's source that raises where it must not, as the test says."""

    raises = ""

    def list(self) -> Listing:
        if self.raises == "list":
            raise RuntimeError("no list today")
        return super().list()

    def get(self, name: str) -> Any:
        tool: Any = super().get(name)
        if self.raises == "get":
            raise RuntimeError("no tool today")
        if self.raises == "schema":
            tool.schema = {"type": "object", "properties": [1]}
        if self.raises == "name":
            tool.name = "bash"
        return tool


@for_each(
    ("raises", "told"),
    [
        ("list", "hub: no list today"),
        ("get", "hub: one cannot be used: no tool today"),
        ("schema", "hub: one cannot be used: "),
        ("name", "hub: it lists one, which calls itself 'bash'"),
    ],
)
def test_a_source_that_breaks_its_contract_is_a_problem_and_nothing_else_is_affected(
    raises: str, told: str
) -> None:
    async def play() -> None:
        source = Unruly("hub", "one")
        toolsets = Toolsets([source, Source("lab", "two")], map(Choice, ("hub", "lab")))
        catalog = catalog_of(toolsets)
        toolsets.sources.begin()
        await toolsets.first_ready()
        source.raises = raises
        await catalog.refresh()
        assert names(catalog) == ["read", "bash", "two"]
        assert [str(problem)[: len(told)] for problem in catalog.now.problems] == [told]
        await toolsets.sources.close()

    asyncio.run(play())


async def test_tools_are_lent_by_name_and_pattern_whether_they_are_on_or_not_and_nothing_is_turned_on() -> (
    None
):
    waiting, slow = (
        Source("site", "fetch", "search", waiting=True),
        Source("hub", "hub_issues", "read", held=True),
    )
    toolsets = Toolsets(
        [waiting, slow, Source("down", fails=9)], allow=AllowList((("f*", "h*", "toolset_use"),))
    )
    catalog = catalog_of(toolsets)
    toolsets.sources.begin()
    slow.release.set()
    assert [
        tool.name for tool in await toolsets.lend(["fetch", "hub_*", "read", "*"], {"read"})
    ] == ["fetch", "hub_issues"]
    assert await toolsets.lend(["*", "search"], ()) == ()
    await catalog.refresh()
    assert names(catalog) == [] and toolsets.held == {}
    await toolsets.sources.close()


async def test_a_source_that_keeps_failing_is_told_once(opened: Open) -> None:
    source = Source("hub", fails=9)
    toolsets = opened(source)
    catalog = catalog_of(toolsets)
    told = []
    for _ in range(4):
        await toolsets.available.ready("hub")
        source.release.clear()
        toolsets.sources.try_again("hub")
        for _ in range(3):
            await asyncio.sleep(0)
            change = await catalog.refresh()
            told += list(change.problems) if change else []
        source.release.set()
    assert source.starts > 3 and [str(problem) for problem in told] == ["hub: it is down"]


async def test_a_source_that_recovers_by_itself_is_not_started_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_DELAY", 0.0)
    source = Source("hub", "one", held=True, fails=1)
    toolsets = opened(source)
    source.release.set()
    started = asyncio.ensure_future(toolsets.available.ready("hub"))
    while not source.list().problems:  # noqa: ASYNC110  # an event would come after the attempt that must not happen
        await asyncio.sleep(0)
    source.have("one")
    for _ in range(20):
        await asyncio.sleep(0)
    assert source.starts == 1 and (await asyncio.wait_for(started, 5)).state == "ready"


async def test_a_start_that_is_cancelled_from_within_is_a_failure(opened: Open) -> None:
    class Cancelled(Source):
        async def start(self, changed: Callable[[], None]) -> None:
            raise asyncio.CancelledError

    with pytest.raises(Failed, match="its start was cancelled from within"):
        await opened(Cancelled("hub")).use("hub")


async def test_sources_leave_the_first_request_a_head_start_unless_they_are_needed() -> None:
    wanted, other, asked = Source("wanted", "one"), Source("other", "two"), Source("asked", "three")
    toolsets = Toolsets([wanted, other, asked], map(Choice, ("wanted",)))
    toolsets.sources.begin(after=3600)
    await toolsets.first_ready()
    await toolsets.use("asked")
    assert (wanted.starts, other.starts, asked.starts) == (1, 0, 1)
    await toolsets.sources.close()
    assert (wanted.closed, other.closed, asked.closed) == (1, 1, 1)
    later = Source("later", "four")
    toolsets = Toolsets([later])
    toolsets.sources.begin(after=0.001)
    await later.ready.wait()
    await toolsets.sources.close()


async def test_a_source_that_is_restarted_twice_at_once_runs_once(opened: Open) -> None:
    toolsets = opened(Source("hub", "one"))
    await toolsets.available.ready("hub")
    await asyncio.gather(toolsets.sources.restart("hub"), toolsets.sources.restart("hub"))
    await toolsets.available.ready("hub")
    assert [task.get_name() for task in asyncio.all_tasks()].count("tools of hub") == 1


async def test_a_source_that_is_closed_while_it_restarts_stays_closed(opened: Open) -> None:
    toolsets = opened(hub := Source("hub", "one"))
    await toolsets.available.ready("hub")
    restarting = asyncio.create_task(toolsets.sources.restart("hub"))
    await asyncio.sleep(0)
    await toolsets.sources.close()
    await restarting
    await toolsets.available.ready("hub")
    assert (hub.starts, hub.closed) == (1, 2)


def test_the_sets_are_worked_out_once_for_each_change() -> None:
    hub = Source("hub")
    toolsets = Toolsets([hub, Source("lab")])
    before = toolsets.available.all()
    assert toolsets.available.all() is before
    hub.have("one")
    assert (
        list(toolsets.available.all()["hub"].tools) == list(hub.list().tools)
        and toolsets.available.all() is not before
    )
