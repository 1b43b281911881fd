"""A line goes back and forgets nothing."""

from codeagent.core.history import BranchingHistory


def test_it_goes_back_to_a_mark_and_on_from_there() -> None:
    line = BranchingHistory("ab")
    line.mark("then")
    line.items += "cd"
    line.go_back("then")
    line.items.append("x")
    assert line.items == ["a", "b", "x"]


def test_a_mark_in_what_was_left_brings_it_back() -> None:
    line = BranchingHistory("ab")
    line.mark("early")
    line.items += "cd"
    line.mark("late")
    line.go_back("early")
    line.items.append("x")
    line.go_back("late")
    assert line.items == ["a", "b", "c", "d"]


def test_a_mark_can_stand_for_the_moment_of_another() -> None:
    line = BranchingHistory("a")
    line.mark("run")
    line.items.append("b")
    line.mark("point", like="run")
    line.go_back("point")
    assert line.items == ["a"]
