"""The window changes its size all the time."""

import itertools
import random

import pytest

from tests.e2e.product import Product
from tests.e2e.screens import READY, ask, long_answer, open_screen
from tests.effort import times

SIZES = times(100)
EXTREMES = [(1, 1), (500, 200), (2, 1), (1, 50), (300, 2), (20, 5), (80, 24)]


@pytest.mark.soak(tried=SIZES)
def test_of_many_sizes_during_a_stream_the_last_one_is_drawn_right(product: Product) -> None:
    dice = random.Random(7)
    sizes = [(dice.randint(1, 200), dice.randint(1, 60)) for _ in range(SIZES - len(EXTREMES))]
    for place, extreme in zip(itertools.count(5, SIZES // len(EXTREMES)), EXTREMES, strict=False):
        sizes.insert(place, extreme)
    with open_screen(
        product, "--model", product.script(long_answer(paragraphs=times(40)))
    ) as screen:
        ask(screen)
        screen.wait_for("paragraph 1 ")
        for number, size in enumerate(sizes):
            seen = len(screen.raw)
            screen.resize(*size)
            if number % 10 == 0 or size in EXTREMES:
                screen.wait_for(lambda seen=seen: len(screen.raw) > seen)
        screen.resize(100, 30)
        screen.wait_for("the very last word")
        screen.wait_for(READY)
        screen.wait_until_silent()
        after_the_storm = screen.screen()
        screen.send("ctrl+l")
        screen.wait_until_silent()
        assert screen.screen() == after_the_storm
        assert sum("the very last word" in row for row in after_the_storm) == 1
        assert all(len(row) <= 100 for row in after_the_storm)
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
        assert screen.modes_left_on() == []
