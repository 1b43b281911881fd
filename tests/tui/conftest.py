"""What tests of the screen share."""

import pytest

from tests.tui.guards import stop_time


@pytest.fixture(autouse=True)
def stopped_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_time(monkeypatch)
