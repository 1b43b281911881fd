"""Who hears what is printed: by context, by thread, and whatever stands at sys.stdout meanwhile."""

import io
import sys
import threading
from contextlib import redirect_stdout

import pytest

from codeagent.extensions.user_tools.printed import heard_by


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, stream: str, text: str) -> None:
        self.heard.append((stream, text))

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.heard)


def say(text: str, stream: str = "stdout") -> None:
    getattr(sys, stream).write(text)


def test_both_streams_are_heard_and_told_apart() -> None:
    with heard_by(ear := Ear()):
        say("out")
        say("err", "stderr")
        sys.stdout.writelines(["a", "b"])
        sys.stdout.flush()
    assert ear.heard == [("stdout", "out"), ("stderr", "err"), ("stdout", "a"), ("stdout", "b")]


def test_afterwards_the_streams_are_what_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with heard_by(Ear()):
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before
    say("mine")
    assert capsys.readouterr().out == "mine"


def test_the_inner_one_hears_what_is_said_inside() -> None:
    with heard_by(outer := Ear()):
        say("1")
        with heard_by(inner := Ear()):
            say("2")
        say("3")
    assert (outer.text, inner.text) == ("13", "2")


def test_a_thread_without_a_context_of_its_own_is_heard_by_the_latest() -> None:
    with heard_by(ear := Ear()):
        thread = threading.Thread(target=say, args=("below",))
        thread.start()
        thread.join()
    assert ear.text == "below"


def test_a_stream_that_is_replaced_meanwhile_is_left_alone_and_the_next_is_heard_again() -> None:
    release, listening = threading.Event(), threading.Event()

    def long() -> None:
        with heard_by(Ear()):
            listening.set()
            release.wait(10)

    thread = threading.Thread(target=long)
    thread.start()
    listening.wait(10)
    with redirect_stdout(other := io.StringIO()):
        say("to the other")
        with heard_by(ear := Ear()):
            say("heard")
    release.set()
    thread.join()
    assert (other.getvalue(), ear.text) == ("to the other", "heard")


def test_what_stands_before_a_stream_is_made_once_and_kept() -> None:
    with heard_by(Ear()):
        first = id(sys.stdout)
    with heard_by(Ear()):
        assert id(sys.stdout) == first


def test_all_else_of_a_stream_is_still_there() -> None:
    expected = sys.stdout.encoding
    with heard_by(Ear()):
        assert sys.stdout.encoding == expected
        with pytest.raises(TypeError, match="argument must be str"):
            sys.stdout.write(b"bytes")  # type: ignore[arg-type]  # what is tested
