"""What providers do, in scripts: what each answer is, and how a run of the agent over it ends."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from email.utils import formatdate

from tests.faults.provider_wires import Wire, status
from tests.servers import Turn

CALL = Turn(text="look", calls=(("do", {"what": "ok", "key": "first"}),))
LAST = Turn(text="all good")
HALF = Turn(text="all goes well")
PAGE = ("content-type: text/html", b"<html><title>Sign in</title></html>")
LONG = "prompt is too long: 9000 tokens > 8000 maximum"
BIG = (("show", {"what": "a line of a long file ", "amount": 9_000}),)


@dataclass(frozen=True)
class Script:
    name: str
    turns: Callable[[Wire], Sequence[Turn]]
    reason: str = "done"
    error: str = ""
    """Part of the line that explains why the run failed, or of a notice if it did not."""
    ran: tuple[str, ...] = ()
    """Keys of the calls that ran, each exactly once."""
    text: str = "all good"
    """Of the last answer that is kept."""
    pauses: tuple[float, ...] | None = None
    """Seconds before each repetition; None: any."""


def _one(turn: Turn) -> Callable[[Wire], list[Turn]]:
    return lambda wire: [turn]


PASSING: tuple[tuple[str, Callable[[Wire], Sequence[Turn]], tuple[float, ...] | None], ...] = (
    ("429", _one(status(429)), (2,)),
    ("429 with seconds", _one(status(429, after="7")), (7,)),
    ("429 with a date that has passed", _one(status(429, after=formatdate(0, usegmt=True))), (2,)),
    ("429 with a date", _one(status(429, after=formatdate(9e9, usegmt=True))), (120,)),
    ("429 with garbage", _one(status(429, after="soon; q=1")), (2,)),
    ("429 with 1e9", _one(status(429, after="1e9")), (120,)),
    ("429 with a negative number", _one(status(429, after="-3")), (2,)),
    ("429 five times", lambda wire: [status(429)] * 5, (2, 4, 8, 16, 32)),
    ("500", _one(status(500)), (2,)),
    ("502 with a page", _one(Turn(status=502, body="<html><body>Bad Gateway</body></html>")), (2,)),
    ("503 with seconds", _one(status(503, after="30")), (30,)),
    ("504 without a body", _one(Turn(status=504, body="")), (2,)),
    ("529", _one(status(529, "Overloaded")), (2,)),
    ("408", _one(status(408)), (2,)),
    ("a reset before the first byte", _one(Turn(hang_up=True)), None),
    ("nothing but the head", _one(replace(LAST, cut_after=0, clean_cut=True)), (2,)),
    ("a reset after the head", _one(replace(LAST, cut_after=0)), (2,)),
    ("text that is cut", lambda wire: [cut(wire, HALF, "all go")], (2,)),
    ("text that ends without an end", lambda wire: [cut(wire, HALF, "all go", clean=True)], (2,)),
    ("a call that is cut", lambda wire: [cut(wire, CALL, "what")], (2,)),
    ("a call that is cut cleanly", lambda wire: [cut(wire, CALL, "what", clean=True)], (2,)),
    (
        "an event that says overloaded",
        lambda wire: [wire.broken("overloaded_error", "Overloaded")],
        (2,),
    ),
    (
        "an event that says rate limit",
        lambda wire: [wire.broken("rate_limit_exceeded", "rate limit reached")],
        (2,),
    ),
    (
        "an event that says server error",
        lambda wire: [wire.broken("server_error", "it broke")],
        (2,),
    ),
    ("JSON that breaks off", lambda wire: [Turn(raw=b'data: {"choices": [{"del\n\n')], (2,)),
    ("silence", _one(Turn(cut_after=0, stall=True)), None),
    ("silence in the middle", lambda wire: [replace(cut(wire, HALF, "all go"), stall=True)], None),
    (
        "200 with an error",
        _one(
            Turn(
                page=(
                    "content-type: application/json",
                    b'{"error": {"message": "busy", "code": 503}}',
                )
            )
        ),
        (2,),
    ),
    (
        "five failures of five kinds",
        lambda wire: [
            status(500),
            Turn(cut_after=0),
            status(429, after="9"),
            status(529),
            cut(wire, HALF, "all go"),
        ],
        (2, 4, 9, 16, 32),
    ),
)
"""Failures after which the next request is answered, and the pauses before it."""


def cut(wire: Wire, turn: Turn, after: str, *, clean: bool = False) -> Turn:
    """The turn up to the end of the event in which these words are."""
    data = wire.render(turn)
    place = data.index(b"\n\n", data.index(after.encode())) + 2
    return Turn(raw=data, cut_after=place, clean_cut=clean)


LASTING: tuple[tuple[str, Turn, str], ...] = (
    ("401", status(401, "invalid key"), "key refused by"),
    ("403", status(403, "not for you"), "may not use this model: not for you"),
    ("404", status(404, "model: nope"), "check the model's name"),
    ("400", status(400, "temperature is bad"), "rejected: temperature is bad"),
    ("422", status(422, "cannot be processed"), "rejected: cannot be processed"),
    ("no quota", status(429, "You exceeded your current quota"), "no quota left"),
    ("a login page", Turn(page=PAGE), "a web page titled 'Sign in'"),
    (
        "a redirect",
        Turn(status=307, headers={"location": "http://127.0.0.1:9/"}, body=""),
        "a redirect to",
    ),
    (
        "refused content",
        status(400, "rejected by our safety system", code="content_policy_violation"),
        "the provider refused the content",
    ),
)
"""Failures that no repetition helps against, and a part of the line that names the cause."""


def _scripts() -> Iterator[Script]:
    for name, turns, pauses in PASSING:
        yield Script(
            f"{name}, first", lambda wire, turns=turns: [*turns(wire), LAST], pauses=pauses
        )
        after = lambda wire, turns=turns: [CALL, *turns(wire), LAST]  # noqa: E731  # one of many
        yield Script(f"{name}, after tools", after, ran=("first",), pauses=pauses)
    for name, turn, error in LASTING:
        yield Script(f"{name}, first", _one(turn), "failed", error, text="", pauses=())
        after = lambda wire, turn=turn: [CALL, turn]  # noqa: E731  # one of many
        yield Script(
            f"{name}, after tools", after, "failed", error, ran=("first",), text="look", pauses=()
        )
    yield from OTHERS


GAVE_UP = "(gave up after 6 attempts)"
OTHERS: tuple[Script, ...] = (
    Script(
        "500 for good",
        lambda wire: [status(500)] * 9,
        "failed",
        GAVE_UP,
        text="",
        pauses=(2, 4, 8, 16, 32),
    ),
    Script(
        "busy for hours",
        lambda wire: [status(429, after="1e9")] * 9,
        "failed",
        "(gave up after 2 attempts)",
        text="",
        pauses=(120,),
    ),
    Script(
        "cut for good",
        lambda wire: [cut(wire, HALF, "all go")] * 9,
        "failed",
        GAVE_UP,
        text="all go",
    ),
    Script(
        "cut, then down",
        lambda wire: [cut(wire, HALF, "all go"), *[status(503)] * 9],
        "failed",
        GAVE_UP,
        text="all go",
    ),
    Script(
        "cut calls for good",
        lambda wire: [cut(wire, CALL, "what")] * 9,
        "failed",
        GAVE_UP,
        text="look",
    ),
    Script(
        "no quota in the stream",
        lambda wire: [wire.broken("insufficient_quota", "You exceeded your current quota")],
        "failed",
        "no quota left",
        text="half",
        pauses=(),
    ),
    Script(
        "a bad request in the stream",
        lambda wire: [wire.broken("invalid_request_error", "tools are odd")],
        "failed",
        "rejected: tools are odd",
        text="half",
        pauses=(),
    ),
    Script(
        "a key that expires in the stream",
        lambda wire: [wire.broken("authentication_error", "expired")],
        "failed",
        "key refused by",
        text="half",
        pauses=(),
    ),
    Script("empty once", lambda wire: [Turn(), LAST], error="was empty"),
    Script(
        "empty for good",
        lambda wire: [Turn()] * 9,
        "failed",
        "was empty, several times over",
        text="",
    ),
    Script(
        "blank for good",
        lambda wire: [Turn(text=" \n")] * 9,
        "failed",
        "was empty, several times over",
        text="",
    ),
    Script("thinking once", lambda wire: [wire.thought(), LAST], error="nothing but thinking"),
    Script(
        "thinking for good",
        lambda wire: [wire.thought()] * 9,
        "failed",
        "nothing but thinking, several",
        text="",
    ),
    Script(
        "empty after tools", lambda wire: [CALL, Turn(), LAST], error="was empty", ran=("first",)
    ),
    Script(
        "refusal once", lambda wire: [Turn(stop=wire.refusal), LAST], error="because of its content"
    ),
    Script(
        "refusal for good",
        lambda wire: [Turn(stop=wire.refusal)] * 9,
        "failed",
        "because of its content, several",
        text="",
    ),
    Script(
        "half a refusal for good",
        lambda wire: [Turn(text="I can", stop=wire.refusal)] * 2,
        error="is not complete: ask for it in another way",
        text="I can",
    ),
    Script(
        "the limit once",
        lambda wire: [Turn(text="all", stop=wire.length), LAST],
        error="cut off by the output limit",
    ),
    Script(
        "the limit for good",
        lambda wire: [Turn(text="all", stop=wire.length)] * 2,
        error="is not complete: ask for the rest",
        text="all",
    ),
    Script(
        "the limit before a word",
        lambda wire: [Turn(stop=wire.length)] * 9,
        "failed",
        "output limit, several times",
        text="",
    ),
    Script(
        "the limit in a call",
        lambda wire: [Turn(calls=(("do", '{"what": "o'),), stop=wire.length), CALL, LAST],
        ran=("first",),
    ),
    Script(
        "the limit in calls for good",
        lambda wire: [Turn(calls=(("do", '{"what": "o'),), stop=wire.length)] * 9,
        "failed",
        "output limit, several times",
        text="",
    ),
    Script(
        "half a call that claims to be whole",
        lambda wire: [Turn(calls=(("do", '{"what": "ok", "ke'),)), CALL, LAST],
        ran=("first",),
    ),
    Script(
        "an array for arguments",
        lambda wire: [Turn(calls=(("do", '["ok"]'),)), CALL, LAST],
        ran=("first",),
    ),
    Script(
        "two objects for arguments",
        lambda wire: [Turn(calls=(("do", '{"what": "ok"}{"what": "ok"}'),)), CALL, LAST],
        ran=("first",),
    ),
    Script(
        "one id for two calls",
        lambda wire: [
            Turn(
                calls=(("do", {"what": "ok", "key": "a"}), ("do", {"what": "ok", "key": "b"})),
                ids=("call_same_id", "call_same_id"),
            ),
            LAST,
        ],
        ran=("a", "b"),
    ),
    Script(
        "one id in two answers",
        lambda wire: [
            replace(CALL, ids=("call_same_id",)),
            Turn(calls=(("do", {"what": "ok", "key": "b"}),), ids=("call_same_id",)),
            LAST,
        ],
        ran=("first", "b"),
    ),
    Script(
        "an unknown tool", lambda wire: [Turn(calls=(("undo", {}),)), CALL, LAST], ran=("first",)
    ),
    Script(
        "too long at once",
        lambda wire: [status(400, LONG)],
        "failed",
        "too long for the model",
        text="",
        pauses=(),
    ),
    Script(
        "413 at once",
        lambda wire: [status(413, "Request too large")],
        "failed",
        "too long for the model",
        text="",
        pauses=(),
    ),
    Script(
        "too long after tools",
        lambda wire: [Turn(text="look", calls=BIG), status(400, LONG), LAST],
        error="compacted",
    ),
    Script(
        "too long in the stream",
        lambda wire: [
            Turn(text="look", calls=BIG),
            wire.broken("context_length_exceeded", LONG),
            LAST,
        ],
        error="compacted",
    ),
    Script(
        "too long for good",
        lambda wire: [Turn(text="look", calls=BIG), *[status(400, LONG)] * 9],
        "failed",
        "too long for the model",
        text="look",
    ),
    Script(
        "no usage",
        lambda wire: [replace(CALL, usage=None), replace(LAST, usage=None)],
        ran=("first",),
    ),
)

SCRIPTS = tuple(_scripts())
