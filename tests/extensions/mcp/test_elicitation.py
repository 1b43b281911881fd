"""A server's question in the middle of a call: asked in its name, bounded, and never answered by
itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codeagent.core.approval_events import Reply
from codeagent.core.cancel import CancelToken
from codeagent.core.display import FormField, QuestionBlock
from codeagent.core.forms import takes
from codeagent.core.sanitize import visible
from codeagent.extensions.mcp.elicitation import Reaction, ask_for_server
from codeagent.workspace.files import LocalWorkspace
from tests.extensions.mcp.setting import answer_of, hostile
from tests.fakes import tool_context
from tests.table import for_each


@dataclass
class Answers:
    """An Asker who gives these answers, in order, and then none; a mapping fills in a form."""

    given: list[str | Mapping[str, str]]
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    forms: list[tuple[FormField, ...]] = field(default_factory=list)

    async def ask(self, call_id: str, question: QuestionBlock, token: CancelToken) -> Reply:
        self.asked.append((question.question, question.options))
        self.forms.append(question.fields)
        given = self.given.pop(0) if self.given else None
        return Reply(json.dumps(given) if isinstance(given, Mapping) else given)


async def reaction(
    asker: Answers,
    properties: Mapping[str, Any],
    *required: str,
    told: list[str] | None = None,
    **params: Any,
) -> Reaction:
    async def on_progress(text: str) -> None:
        if told is not None:
            told.append(text)

    schema = {"type": "object", "properties": properties, "required": list(required)}
    given = {"message": "Who are you?", "requestedSchema": schema, **params}
    ctx = replace(tool_context(LocalWorkspace(Path.cwd())), on_progress=on_progress)
    return await ask_for_server("github", given, asker, ctx)


async def test_all_fields_are_one_form_and_become_what_they_are_to_be() -> None:
    filled = {"name": "Ada", "age": "36", "share": "1.5", "sure": "yes", "color": "red"}
    asker = Answers([filled])
    fields = {
        "name": {"type": "string", "title": "Name"},
        "age": {"type": "integer"},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "more": {"type": "string"},
    }
    content = {"name": "Ada", "age": 36, "share": 1.5, "sure": True, "color": "red"}
    assert await reaction(asker, fields, *list(fields)[:5]) == Reaction("accept", content)
    ((question, options),) = asker.asked
    assert question.startswith("The MCP server github asks") and options == ()
    assert [(each.label, each.kind, each.options, each.required) for each in asker.forms[0]] == [
        ("Name", "text", (), True),
        ("age", "integer", (), True),
        ("share", "number", (), True),
        ("sure", "text", ("yes", "no"), True),
        ("color", "text", ("red", "blue"), True),
        ("more", "text", (), False),
    ]


async def test_choices_are_told_by_their_titles_and_several_by_commas() -> None:
    titled = [{"const": "one", "title": "One"}, {"const": "two"}]
    fields = {
        "color": {
            "type": "string",
            "oneOf": [{"const": "#800", "title": "Dark red"}, {"const": "#f00"}],
        },
        "some": {"type": "array", "items": {"anyOf": titled}},
        "words": {"type": "array", "items": {"type": "string"}},
        "number": {"type": "integer", "enum": [7, 8]},
        "size": {"type": "string", "enum": ["wide", 7]},
        "room": {"type": "string", "enum": ["s", "d"], "enumNames": ["Single", "Double"]},
    }
    filled = {
        "color": "Dark red",
        "some": "two, One",
        "words": "a,b",
        "number": "7",
        "size": "wide",
    }
    content = {
        "color": "#800",
        "some": ["two", "one"],
        "words": ["a", "b"],
        "number": 7,
        "size": "wide",
    }
    asker = Answers([{**filled, "room": "Double"}])
    assert await reaction(asker, fields, *fields) == Reaction("accept", {**content, "room": "d"})
    assert [(each.options, each.several) for each in asker.forms[0]] == [
        (("Dark red", "#f00"), False),
        (("One", "two"), True),
        ((), True),
        (("7", "8"), False),
        (("wide", "7"), False),
        (("Single", "Double"), False),
    ]


async def test_a_field_begins_with_its_default() -> None:
    fields = {
        "count": {"type": "integer", "default": 3},
        "sure": {"type": "boolean", "default": False},
        "one": {"enum": [1, True], "default": 1},
        "odd": {"type": "string", "default": ["x"]},
    }
    asker = Answers([])
    await reaction(asker, fields)
    assert [each.begins for each in asker.forms[0]] == ["3", "no", "1", ""]


async def test_a_server_without_a_handshake_gets_the_answer_with_the_same_call_again(
    tmp_path: Path,
) -> None:
    asker = Answers([{"name": "Ada"}])
    async with hostile("OnlyWithoutHandshake", tmp_path, asker) as setting:
        assert '["state", {"action": "accept", "content": {"name": "Ada"}}]' in await answer_of(
            setting, text="x"
        )


@for_each(
    ("about", "answer"),
    [
        ({"type": "number"}, "nan"),
        ({"type": "array", "items": {"enum": ["a"]}}, "a,b"),
        ({"type": "integer"}, "many"),
        ({"type": "boolean"}, "perhaps"),
        ({"type": "string", "enum": ["a"]}, "b"),
    ],
)
async def test_an_answer_that_does_not_fit_declines(about: dict[str, Any], answer: str) -> None:
    assert await reaction(Answers([{"x": answer}] * 3), {"x": about}, "x") == Reaction("decline")


@for_each("answer", ["", "x", "[]", '{"x": 1}', "[" * 100_000])
async def test_an_answer_that_is_not_a_form_declines(answer: str) -> None:
    asker = Answers([answer] * 3)
    assert await reaction(asker, {"x": {"type": "string"}}) == Reaction("decline")
    assert asker.asked[-1][0].startswith("Not sent: it is not a form. ")


async def test_the_bounds_of_a_field_are_told_and_what_is_outside_is_asked_again() -> None:
    fields = {
        "count": {"type": "integer", "minimum": 1, "maximum": 10},
        "name": {"type": "string", "minLength": 2},
        "tags": {"type": "array", "maxItems": 1},
        "share": {"type": "number", "exclusiveMaximum": 0.5},
    }
    good = {"count": "10", "name": "Ada", "tags": "a", "share": "0.4"}
    asker = Answers([good | {"count": "11"}, good | {"tags": "a,b"}, good])
    assert await reaction(asker, fields, *fields) == Reaction(
        "accept", {"count": 10, "name": "Ada", "tags": ["a"], "share": 0.4}
    )
    assert [takes(each) for each in asker.forms[0]] == [
        "required, a whole number, at least 1, at most 10",
        "required, at least 2 characters",
        "required, separated by commas, at most 1 of them",
        "required, a number, less than 0.5",
    ]
    first, second, third = (question for question, _ in asker.asked)
    assert second == f"Not sent: count: it takes at most 10. {first}"
    assert third == f"Not sent: tags: it takes at most 1 of them. {first}"


async def test_a_format_is_told_and_another_text_is_asked_again() -> None:
    fields = {
        "mail": {"type": "string", "format": "email"},
        "odd": {"type": "string", "format": "color"},
    }
    asker = Answers([{"mail": "ada", "odd": "red"}, {"mail": "ada@a.org", "odd": "red"}])
    assert await reaction(asker, fields) == Reaction("accept", {"mail": "ada@a.org", "odd": "red"})
    assert [takes(each) for each in asker.forms[0]] == ["an email address", ""]
    assert asker.asked[1][0].startswith("Not sent: mail: it takes an email address. ")


@for_each(
    "bounds",
    [
        {"minimum": "many", "maximum": True},
        {"minimum": 10**400},
        {"maximum": float("nan")},
        {"exclusiveMinimum": float("inf")},
    ],
)
async def test_bounds_that_are_not_finite_numbers_bind_nothing(bounds: dict[str, Any]) -> None:
    about = {"type": "integer", **bounds}
    assert await reaction(Answers([{"x": "5"}]), {"x": about}, "x") == Reaction("accept", {"x": 5})


async def test_required_fields_that_are_not_a_list_are_ignored() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": 5}
    assert await reaction(Answers([{}]), {}, requestedSchema=schema) == Reaction("accept", {})


async def test_no_answer_cancels_and_no_declines() -> None:
    assert await reaction(Answers([]), {"x": {"type": "string"}}) == Reaction("cancel")
    assert await reaction(Answers(["no"]), {}) == Reaction("decline")
    assert await reaction(Answers(["yes"]), {}) == Reaction("accept", {})


async def test_a_form_of_too_many_fields_is_not_asked_and_the_user_is_told() -> None:
    asker, fields = Answers([{}]), {f"f{number}": {"type": "string"} for number in range(20)}
    assert await reaction(asker, fields) == Reaction("accept", {}) and len(asker.forms[0]) == 20
    told: list[str] = []
    assert await reaction(asker, fields | {"f20": {"type": "string"}}, told=told) == Reaction(
        "decline"
    )
    assert len(asker.asked) == 1
    assert told == ["declined github's form of 21 fields: at most 20 are asked"]


async def test_an_address_is_shown_and_never_opened() -> None:
    asker = Answers(["I have opened it", "decline"])
    for action in ("accept", "decline"):
        assert (
            await reaction(asker, {}, mode="url", url="https://example.org/\x1b[2J")
        ).action == action
    assert "https://example.org/\\x1b[2J" in asker.asked[0][0]


async def test_a_phishing_server_is_named_and_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    asker = Answers([{"password": "no idea"}])
    async with hostile("Phishes", tmp_path, asker) as setting:
        answer = json.loads(await answer_of(setting, text="x"))
    assert answer == {"action": "accept", "content": {"password": "no idea"}}
    [(question, _)] = asker.asked
    assert question.startswith(
        "The MCP server hostile asks, and gets your answer (never give it a password)"
    )
    assert visible(question) == question


async def test_a_server_asks_no_more_than_five_times_in_one_call(tmp_path: Path) -> None:
    asker = Answers([{"password": "x"}] * 100)
    async with hostile("AsksWithoutEnd", tmp_path, asker) as setting:
        assert "decline" in await answer_of(setting, text="x")
    assert len(asker.asked) == 5


async def test_a_server_cannot_ask_outside_of_a_call(tmp_path: Path) -> None:
    asker = Answers(["yes"])
    async with hostile("AsksOutsideOfCalls", tmp_path, asker) as setting:
        assert await answer_of(setting, text="hi") == "hi"
    assert asker.asked == []
    assert json.loads((tmp_path / "told").read_text())["result"] == {"action": "decline"}
