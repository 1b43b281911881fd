"""What tests of the screen share."""

from collections.abc import Iterator

import pytest
from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation

from tests.tui.guards import stop_time


@pytest.fixture(autouse=True)
def stopped_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_time(monkeypatch)


@pytest.fixture(autouse=True, scope="session")
def styles_parsed_once() -> Iterator[None]:
    """What one app has parsed of its style sheets, the next one with the same variables does not parse again."""
    parse = Stylesheet._parse_rules
    parsed: LRUCache[tuple[object, ...], list[RuleSet]] = LRUCache(4_096)

    def parse_once(
        sheet: Stylesheet,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        key = (tuple(sheet._variables.items()), css, read_from, is_default_rules, tie_breaker, scope)
        if (rules := parsed.get(key)) is None:
            parsed[key] = rules = parse(sheet, css, read_from, is_default_rules, tie_breaker, scope)
        return rules

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield
