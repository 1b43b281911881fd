"""Up and Down go through what was typed before, and nothing typed is lost on the way."""

from codeagent.tui.prompt_history import HistoryWalk


def test_up_goes_to_the_newest_first_and_down_comes_back_to_what_was_typed() -> None:
    walk = HistoryWalk(["one", "two"])
    assert walk.older("half a tho") == "two"
    assert walk.older("two") == "one"
    assert walk.older("one") is None
    assert walk.newer("one") == "two"
    assert not walk.at_typed
    assert walk.newer("two") == "half a tho"
    assert walk.at_typed
    assert walk.newer("half a tho") is None


def test_a_change_to_an_earlier_prompt_is_still_there_on_the_way_back() -> None:
    walk = HistoryWalk(["one", "two"])
    walk.older("")
    assert walk.older("two, changed") == "one"
    assert walk.newer("one") == "two, changed"


def test_without_earlier_prompts_there_is_nowhere_to_go() -> None:
    assert HistoryWalk([]).older("text") is None
