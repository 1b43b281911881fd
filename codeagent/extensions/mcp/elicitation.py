"""Asks the user a server's question in the middle of a call: as one form, always in the server's
name."""

from collections.abc import Mapping
from typing import Any, Literal

from codeagent.core.approval_events import Asker
from codeagent.core.dataclass import dataclass
from codeagent.core.display import QuestionBlock
from codeagent.core.forms import FormValues, field_of, values_of
from codeagent.core.sanitize import one_line
from codeagent.core.tool import ToolContext

_MOST_FIELDS = 20
_MOST_TRIES = 3
"""How often a form is asked for before it is declined."""
_LONGEST_MESSAGE = 500
_YES, _NO = "yes", "no"


@dataclass(frozen=True)
class Reaction:
    """The answer to the server."""

    action: Literal["accept", "decline", "cancel"]
    content: FormValues | None = None


async def ask_for_server(
    server: str, params: Mapping[str, Any], asker: Asker, ctx: ToolContext
) -> Reaction:
    """Ask for what `params` of `elicitation/create`, a JSON object, request. Raises RunCancelled.

    Declines forms with too many fields. A form with an answer that is not valid is asked for again,
    and declined if it never is. Addresses are never opened.
    """
    message = one_line(str(params.get("message") or ""), _LONGEST_MESSAGE)
    intro = (
        f"The MCP server {server} asks, and gets your answer (never give it a password): {message}"
    )
    if params.get("mode") == "url":
        text = f"{intro} It wants you to open {one_line(str(params.get('url')), 1000)} yourself."
        question = QuestionBlock(question=text, options=("I have opened it", "decline"))
        reply = await asker.ask(ctx.call_id, question, ctx.cancel)
        return Reaction("accept" if reply.answer == "I have opened it" else "decline")
    schema = params.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(fields, Mapping):
        return Reaction("decline")
    if len(fields) > _MOST_FIELDS:
        await ctx.on_progress(
            f"declined {server}'s form of {len(fields):,} fields: at most {_MOST_FIELDS} are asked"
        )
        return Reaction("decline")
    if not fields:
        reply = await asker.ask(
            ctx.call_id, QuestionBlock(question=intro, options=(_YES, _NO)), ctx.cancel
        )
        return Reaction("accept", {}) if reply.answer == _YES else Reaction("decline")
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else ()
    abouts = {
        str(name): about if isinstance(about, Mapping) else {} for name, about in fields.items()
    }
    form = tuple(field_of(name, about, required=name in required) for name, about in abouts.items())
    problem = ""
    for _ in range(_MOST_TRIES):
        reply = await asker.ask(
            ctx.call_id, QuestionBlock(question=problem + intro, fields=form), ctx.cancel
        )
        if reply.answer is None:
            return Reaction("cancel")
        try:
            return Reaction("accept", values_of(form, abouts, reply.answer))
        except ValueError as error:
            problem = f"Not sent: {one_line(str(error), 200)}. "
    return Reaction("decline")
