"""Secrets of the process are nowhere in what is written."""

import json

from hypothesis import given
from hypothesis import strategies as st

from codeagent.core.redact import Redactor
from codeagent.core.sanitize import one_line
from tests.table import for_each


def test_a_secret_is_replaced_by_its_name() -> None:
    redactor = Redactor({"OPENAI_API_KEY": "sk-abcdefgh", "HOME": "/home/someone"})
    assert (
        redactor.clean("key sk-abcdefgh at /home/someone")
        == "key [secret OPENAI_API_KEY] at /home/someone"
    )


def test_short_values_and_ordinary_names_are_left_alone() -> None:
    redactor = Redactor(
        {"API_KEY": "test", "MONKEY": "bananas-are-yellow", "KEYBOARD": "qwertz-layout"}
    )
    assert (
        redactor.clean("test bananas-are-yellow qwertz-layout")
        == "test bananas-are-yellow qwertz-layout"
    )


@given(st.text(min_size=8), st.text(), st.text(), st.booleans())
def test_a_secret_never_survives_inside_json(
    secret: str, before: str, after: str, ascii_only: bool
) -> None:
    line = json.dumps({"text": before + secret + after}, ensure_ascii=ascii_only)
    cleaned = Redactor({"MY_TOKEN": secret}).clean(line)
    assert (
        json.dumps(secret, ensure_ascii=ascii_only)[1:-1] not in cleaned
        or secret in "[secret MY_TOKEN]"
    )


@given(st.text(min_size=8), st.text(), st.text(), st.lists(st.booleans(), min_size=1, max_size=3))
def test_a_secret_never_survives_inside_json_within_json(
    secret: str, before: str, after: str, ascii_only: list[bool]
) -> None:
    text, spelled = before + secret + after, secret
    for level in ascii_only:
        text = json.dumps({"text": text}, ensure_ascii=level)
        spelled = json.dumps(spelled, ensure_ascii=level)[1:-1]
    assert (
        spelled not in Redactor({"MY_TOKEN": secret}).clean(text) or secret in "[secret MY_TOKEN]"
    )


@for_each(
    ("cut", "cleaned"),
    [
        ("echo sk-abcdef…", "echo [secret MY_TOKEN]…"),
        (
            "sk-abcdef\\n[… 9 left out …]\\nefghijkl on",
            "[secret MY_TOKEN]\\n[… 9 left out …]\\n[secret MY_TOKEN] on",
        ),
        ('{"label":"echo sk-abcdef…"}', '{"label":"echo [secret MY_TOKEN]…"}'),
        ("…fghijkl and more", "…[secret MY_TOKEN] and more"),
        ("echo sk-abcdef", "echo sk-abcdef"),
        ("sk-ab… is a short part", "sk-ab… is a short part"),
    ],
)
def test_the_part_that_a_cut_leaves_of_a_secret_is_masked(cut: str, cleaned: str) -> None:
    assert Redactor({"MY_TOKEN": "sk-abcdefghijkl"}).clean(cut) == cleaned


def test_a_text_full_of_cuts_is_cleaned_in_linear_time() -> None:
    """A page can consist of them: at a fifth of a millisecond each, this would take minutes."""
    redactor = Redactor({f"K{at}_TOKEN": f"sk-ant-{at}-abcdefgh" for at in range(50)})
    assert redactor.clean("sk-ant-7…" + "…" * 400_000).startswith("[secret K7_TOKEN]…")


@given(st.text("abcdefgh", min_size=10, max_size=30), st.text(max_size=50), st.integers(1, 80))
def test_however_short_a_line_is_cut_no_part_of_a_secret_is_left_at_its_end(
    secret: str, before: str, width: int
) -> None:
    cut = one_line(f"{before} {secret} after", width)
    cleaned = Redactor({"MY_TOKEN": secret}).clean(cut)
    ends = cleaned.removesuffix("…")
    assert not cut.endswith("…") or not any(
        ends.endswith(secret[:size]) for size in range(6, len(secret) + 1)
    )


@for_each(
    "name",
    [
        "DB_PASS",
        "PASS",
        "GPG_PASSPHRASE",
        "KEY_PASSCODE",
        "MYSQL_PWD",
        "SENTRY_DSN",
        "DB_CONNECTION_STRING",
        "NPM_AUTH",
        "SESSION_COOKIE",
        "APP_JWT",
        "AWS_CREDS",
        "ADMIN_PW",
        "API_SECRETS",
    ],
)
def test_the_names_that_secrets_go_by_are_known(name: str) -> None:
    assert (
        Redactor({name: "hunter2-hunter2"}).clean("it is hunter2-hunter2")
        == f"it is [secret {name}]"
    )


@for_each(
    "name", ["PWD", "OLDPWD", "COMPASS", "PASSENGER_HOME", "SSH_AUTH_SOCK", "BYPASS", "AUTHOR"]
)
def test_names_that_only_look_like_it_are_left_alone(name: str) -> None:
    assert Redactor({name: "/home/someone"}).clean("at /home/someone") == "at /home/someone"


@for_each(
    ("text", "cleaned"),
    [
        ("postgres://app:s3cr3t-pw@db:5432/x", "postgres://[secret DATABASE_URL]db:5432/x"),
        ("psql -W s3cr3t-pw", "psql -W [secret DATABASE_URL]"),
        ("postgres://db:5432/x", "postgres://db:5432/x"),
    ],
)
def test_the_login_of_a_url_is_masked_whatever_the_variable_is_called(
    text: str, cleaned: str
) -> None:
    assert Redactor({"DATABASE_URL": "postgres://app:s3cr3t-pw@db:5432/x"}).clean(text) == cleaned


def test_a_short_password_is_masked_together_with_who_logs_in_and_an_escaped_one_as_it_is_meant() -> (
    None
):
    redactor = Redactor({"REDIS": "redis://cache:abc@cache", "MQ": "amqp://joe:p%40ssw0rd@mq"})
    assert redactor.clean("redis://cache:abc@cache abc") == "redis://[secret REDIS]cache abc"
    assert redactor.clean("joe logs in with p@ssw0rd") == "joe logs in with [secret MQ]"
