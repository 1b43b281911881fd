"""A test that goes through a table: collected and reported once, and every case that fails is
named."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., Any]
Case = dict[str, Any]


def for_each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """`pytest.mark.parametrize` for cases of microseconds: one test calls the function with each of
    them.

    All cases share the fixtures of the one test. Each failure stands in the group that is raised,
    with its case.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    table = [dict(zip(wanted, case if len(wanted) > 1 else (case,), strict=True)) for case in cases]
    assert table, f"no cases of {', '.join(wanted)}"

    def one_test(check: Test) -> Test:
        @functools.wraps(check)
        def through(**fixtures: Any) -> None:
            with _collected(len(table)) as failed:
                for case in table:
                    with _kept(failed, case):
                        check(**fixtures, **case)

        @functools.wraps(check)
        async def awaited(**fixtures: Any) -> None:
            with _collected(len(table)) as failed:
                for case in table:
                    with _kept(failed, case):
                        await check(**fixtures, **case)

        test = awaited if inspect.iscoroutinefunction(check) else through
        left = [
            each for name, each in inspect.signature(check).parameters.items() if name not in wanted
        ]
        test.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]  # what pytest takes fixtures from
        return test

    return one_test


@contextmanager
def _collected(number: int) -> Iterator[list[BaseException]]:
    failed: list[BaseException] = []
    yield failed
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {number} cases fail", failed)


@contextmanager
def _kept(failed: list[BaseException], case: Case) -> Iterator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception, BaseExceptionGroup) as failure:
        failure.add_note(
            f"with {', '.join(f'{name}={value!r:.300}' for name, value in case.items())}"
        )
        failed.append(failure)
