import pytest
from rich.cells import cell_len

from codeagent.tui.parts.status import Header
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.state import StatusBoard
from codeagent.tui.status import Status
from tests.table import for_each

STATUS = Status().changed(
    workspace="acme-api",
    branch="main",
    changes=3,
    model="claude-sonnet",
    mode="ask",
    sandbox="docker",
    network="none",
)


def drawn(width: int, **changes: object) -> str:
    board = StatusBoard(STATUS)
    board.set(**changes)
    return Header(board).row(width, Palette()).strip.text


def test_it_says_where_and_what_is_allowed() -> None:
    text = drawn(80)
    assert text.startswith(" acme-api  main ±3 ")
    assert text.endswith(" claude-sonnet · sandbox: docker, net off")
    assert cell_len(text) == 79


def test_a_clean_workspace_has_no_count() -> None:
    assert drawn(80, changes=0).startswith(" acme-api  main  ")


@for_each("width", range(1, 140))
@for_each(
    "workspace",
    ["acme-api", "a-very-long-name-of-a-repository-that-somebody-chose", "資料庫資料庫資料庫"],
)
def test_it_never_is_wider_than_the_screen(width: int, workspace: str) -> None:
    assert cell_len(
        drawn(width, workspace=workspace, branch="feature/something-long-as-well")
    ) <= max(width, 2)


def test_the_sandbox_is_kept_longest() -> None:
    assert drawn(30).strip() == "sandbox: docker, net off"


def test_where_it_does_not_fit_the_sandbox_is_named_first() -> None:
    assert drawn(14).strip() == "docker, net…"


def test_long_names_are_cut_in_the_middle() -> None:
    text = drawn(80, branch="feature/the-parser-of-dates-fails-on-leap-days", model="m")
    assert "acme-api  feature/the" in text
    assert "…" in text
    assert "-days ±3" in text


@pytest.mark.parametrize(
    ("sandbox", "style"), [("none", "warning"), ("off", "error"), ("docker", "muted")]
)
def test_a_missing_sandbox_is_said_and_marked(sandbox: str, style: str) -> None:
    board = StatusBoard(STATUS)
    board.set(sandbox=sandbox)
    palette = Palette()
    segments = Header(board).row(80, palette).strip
    found = next(segment for segment in segments if "sandbox" in segment.text)
    assert found.style == getattr(palette, style)


def test_names_cannot_act_on_the_terminal() -> None:
    assert "\x1b" not in drawn(80, workspace="\x1b]0;x\x07", branch="\u202emain")


@for_each(
    "level",
    [
        ("none", "net off", "muted"),
        ("allow-list", "net allow-list", "muted"),
        ("ask", "net ask", "muted"),
        ("open", "net open", "error"),
    ],
)
def test_what_commands_may_reach_is_said_and_an_open_network_stands_out(
    level: tuple[str, str, str],
) -> None:
    board = StatusBoard(STATUS)
    board.set(network=level[0])
    palette = Palette()
    found = next(
        segment for segment in Header(board).row(80, palette).strip if "sandbox" in segment.text
    )
    assert (found.text, found.style) == (f"sandbox: docker, {level[1]}", getattr(palette, level[2]))
