"""What a field of a form takes."""

from codeagent.core.display import FormField
from codeagent.core.forms import problem_of, read, takes
from tests.table import for_each

COUNT = FormField(name="n", label="N", kind="integer", at_least=1, at_most=10)
SHARE = FormField(name="n", label="N", kind="number", more_than=0, less_than=0.5)
NAME = FormField(name="n", label="N", required=True, at_least=2, at_most=4)
COLOR = FormField(name="n", label="N", options=("red", "blue"))
CITIES = FormField(name="n", label="N", options=("Paris", "Paris, France", "Rome"), several=True)
MAIL = FormField(name="n", label="N", kind="email", at_most=12)
PLACE = FormField(name="n", label="N", kind="uri")
DAY = FormField(name="n", label="N", kind="date")
MOMENT = FormField(name="n", label="N", kind="date-time")
TAGS = FormField(name="n", label="N", options=("a", "b", "c"), several=True, at_most=2)


@for_each(
    ("field", "text", "problem"),
    [
        (COUNT, "1", ""),
        (COUNT, "0", "it takes at least 1"),
        (COUNT, "11", "it takes at most 10"),
        (COUNT, "1.5", "it takes a whole number"),
        (COUNT, "1" * 400, "it takes a whole number"),
        (COUNT, "", ""),
        (SHARE, "0.4", ""),
        (SHARE, "0", "it takes more than 0"),
        (SHARE, "0.5", "it takes less than 0.5"),
        (SHARE, "nan", "it takes a number"),
        (SHARE, "inf", "it takes a number"),
        (NAME, "Ada", ""),
        (NAME, "", "it is required"),
        (NAME, "A", "it takes at least 2 characters"),
        (NAME, "Ada L", "it takes at most 4 characters"),
        (COLOR, "red", ""),
        (COLOR, "green", "it takes one of: red, blue"),
        (MAIL, "ada@a.org", ""),
        (MAIL, "ada", "it takes an email address"),
        (MAIL, "ada @a.org", "it takes an email address"),
        (MAIL, "ada@", "it takes an email address"),
        (MAIL, "ada@example.org", "it takes at most 12 characters"),
        (PLACE, "https://example.org/a", ""),
        (PLACE, "mailto:ada@a.org", ""),
        (PLACE, "example.org", "it takes an address such as https://example.org"),
        (PLACE, "http://[", "it takes an address such as https://example.org"),
        (DAY, "2026-02-28", ""),
        (DAY, "2026-02-30", "it takes a date such as 2026-05-30"),
        (DAY, "20260228", "it takes a date such as 2026-05-30"),
        (MOMENT, "2026-02-28T09:30:00+01:00", ""),
        (MOMENT, "2026-02-28t09:30:00z", ""),
        (MOMENT, "2026-02-28T09:30:00", "it takes a date and time such as 2026-05-30T14:00:00Z"),
        (MOMENT, "2026-02-28", "it takes a date and time such as 2026-05-30T14:00:00Z"),
        (TAGS, "a, b", ""),
        (TAGS, "a,b,c", "it takes at most 2 of them"),
        (TAGS, "a,x", "it takes one of: a, b, c"),
    ],
)
def test_what_is_wrong_with_a_text(field: FormField, text: str, problem: str) -> None:
    assert problem_of(field, text) == problem


def test_a_text_is_read_as_what_the_field_takes() -> None:
    assert (read(COUNT, "7"), read(SHARE, "0.25"), read(NAME, "Ada"), read(COLOR, "red")) == (
        7,
        0.25,
        "Ada",
        "red",
    )
    assert read(TAGS, "a, b,") == ["a", "b"]
    assert read(CITIES, "Rome,Paris,  France, Paris") == ["Rome", "Paris, France", "Paris"]


def test_what_a_field_takes_is_said() -> None:
    assert takes(COUNT) == "a whole number, at least 1, at most 10"
    assert takes(NAME) == "required, at least 2 characters, at most 4 characters"
    assert takes(MAIL) == "an email address, at most 12 characters"
    assert takes(TAGS) == "separated by commas, a, b, c, at most 2 of them"
    assert takes(FormField(name="n", label="N")) == ""
