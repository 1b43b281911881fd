"""Asks servers and providers for their models, with abilities and prices, for `/model` and
`/effort`."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from codeagent.commands.model_offers import ModelOffers, rows_at, rows_of
from codeagent.config.keys import server_variable
from codeagent.config.model_marks import ModelMarksFile
from codeagent.config.settings import Settings
from codeagent.core.budget import LEVELS, Effort
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import CodeagentError, ConfigError, ModelError
from codeagent.core.model import ModelFacts, ModelRequest
from codeagent.llm.catalog import facts_of, is_scripted
from codeagent.llm.local_servers import KeyWanted, LocalServer, server_at
from codeagent.llm.model_lists import lists_models, models_of
from codeagent.llm.providers import native_target, providers, server_root
from codeagent.llm.server_details import ask_about
from codeagent.llm.usage import prompt_cost, prompt_tokens
from codeagent.llm.wire import said_thinking
from codeagent.tui.launcher import ModelOffer, ModelRow

_GONE = "not listed"
_Place = tuple[object, str]
"""The identity of a model, however its name and its server are written."""
_Rows = dict[_Place, ModelRow]


@dataclass(frozen=True)
class _Source:
    """A server or provider that is asked for its models."""

    who: str
    ask: Coroutine[Any, Any, Sequence[ModelRow]]
    provider: str = ""
    """The provider whose well-known models its answer replaces."""


async def listed(
    offers: ModelOffers, marks: ModelMarksFile, settings: Settings, prompt: int | ModelRequest
) -> AsyncIterator[ModelOffer]:
    """Do what `Launcher.offers` says."""
    offered, servers = await offers.offered(settings)
    rows: _Rows = {}
    _join(rows, await asyncio.to_thread(_marked, marks))
    _join(rows, offered)
    sources = [*_servers(servers), *_providers(offers, offered)]
    base = settings.api_base
    if base and server_root(base) not in [server_root(each.api_base) for each in servers]:
        sources.append(_Source(base, _at(offers, base, settings.model)))
    sent = prompt if isinstance(prompt, int) else await asyncio.to_thread(prompt_tokens, prompt)
    waiting = {asyncio.ensure_future(source.ask): source for source in sources}
    problems: list[str] = []
    try:
        while True:
            priced = await asyncio.to_thread(_priced, rows.values(), settings, sent)
            yield ModelOffer(priced, tuple(each.who for each in waiting.values()), tuple(problems))
            if not waiting:
                return
            answered, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in answered:
                source = waiting.pop(task)
                try:
                    _join(rows, await task, source.provider)
                except CodeagentError as error:
                    problems.append(f"{source.who}: {error}")
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _marked(marks: ModelMarksFile) -> list[ModelRow]:
    """Return the favourites and those used last, under the names that they were marked with."""
    with suppress(ConfigError):  # the list says what is wrong with the file
        kept = marks.read()
        return [
            ModelRow(each.name, _GONE, ready=True, api_base=each.api_base)
            for each in (*kept.favourites, *kept.recent)
        ]
    return []


def _place(row: ModelRow) -> _Place:
    if row.api_base is None:
        return None, row.name
    return server_root(row.api_base), row.name.removeprefix("openai/")


def _join(rows: _Rows, answer: Iterable[ModelRow], provider: str = "") -> None:
    """Add an answer, also to what is known of models already there; well-known models that their
    provider does not list are removed."""
    found = {_place(row): row for row in reversed([*answer])}
    for place, row in [*rows.items()]:
        gone = provider and row.about == "hosted" and row.name.startswith(f"{provider}/")
        if place in found:
            said = found.pop(place)
            about = said.about if row.about == _GONE else row.about
            rows[place] = replace(row, about=about, ready=said.ready, facts=said.facts)
        elif gone:
            del rows[place]
    rows |= dict(reversed(found.items()))


def _servers(servers: Iterable[LocalServer]) -> Iterator[_Source]:
    for server in servers:
        yield _Source(f"{server.name} on this machine", _with_facts(server, rows_of([server]), {}))


def _providers(offers: ModelOffers, rows: Iterable[ModelRow]) -> Iterator[_Source]:
    """Yield the providers whose key is set or kept; their well-known models are then ready."""
    ready = {row.name.partition("/")[0] for row in rows if row.ready and row.api_base is None}
    for provider, row in providers().items():
        if lists_models(provider) and (row.found_key(os.environ) or provider in ready):
            yield _Source(provider, _offered_by(provider, offers), provider)


async def _offered_by(provider: str, offers: ModelOffers) -> list[ModelRow]:
    row = providers()[provider]
    key = row.found_key(os.environ) or await offers.kept_key(row.keys)
    found = await models_of(provider, key or "", os.environ)
    return [ModelRow(name, "hosted", True, facts=facts) for name, facts in found.items()]


async def _at(offers: ModelOffers, base: str, model: str | None) -> Sequence[ModelRow]:
    """Ask the server in use, with its own key, or that which requests for the model take there."""
    key = await offers.kept_key([server_variable(base)])
    if key is None:
        target = native_target(model or "openai/", base, None, os.environ)
        speaks_openai = target is not None and target.provider == "openai"
        key = os.environ.get("OPENAI_API_KEY") if speaks_openai else None
    server = await server_at(base, key)
    if isinstance(server, KeyWanted):
        raise ModelError("it refused the key" if key else "it wants a key", kind="auth")
    if server is None:
        raise ModelError("it lists no models", kind="server")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    named = replace(server, api_base=base)
    rows = rows_at(named, f"at {base}")
    with suppress(ModelError):  # too slow to say more than their names
        return await _with_facts(named, rows, headers)
    return rows


async def _with_facts(
    server: LocalServer, rows: Iterable[ModelRow], headers: Mapping[str, str]
) -> list[ModelRow]:
    """Return the rows of a server, one for each of its models, with what it says about them."""
    facts = await ask_about(server.api_base, headers, server.models)
    if facts is None:
        raise ModelError("it does not say what its models can do", kind="server")
    return [
        replace(row, facts=facts[model]) for row, model in zip(rows, server.models, strict=True)
    ]


def _order(row: ModelRow) -> tuple[object, ...]:
    """Return the sort key of a row: the model in use, then those of servers, hosted ones by
    provider, those that need a key, and the demo."""
    hosted = row.about.startswith("hosted")
    provider = row.name.partition("/")[0] if hosted else ""
    return not row.about.startswith("in use"), is_scripted(row.name), not row.ready, provider


def _priced(rows: Iterable[ModelRow], settings: Settings, prompt: int) -> tuple[ModelRow, ...]:
    """Return the sorted rows, completed from the table and the user's own prices; blocks on a
    file."""
    priced: list[ModelRow] = []
    for row in sorted(rows, key=_order):
        facts, cost = row.facts or ModelFacts(), None
        if row.api_base is None and not is_scripted(row.name):
            facts = facts.or_else(facts_of(row.name) or ModelFacts())
            cost = prompt_cost(row.name, prompt)
        if (own := settings.prices.get(row.name)) is not None:
            facts, cost = replace(facts, prices=(own.input, own.output)), None
        if cost is None and facts.prices is not None:
            cost = prompt * facts.prices[0] / 1_000_000
        priced.append(replace(row, facts=facts, next_cost=cost))
    return tuple(priced)


def efforts_of(settings: Settings) -> tuple[tuple[Effort, str], ...]:
    """Return the levels of thinking that the model can be asked for, and how it is asked for each;
    blocks on a file."""
    name = settings.model or ""
    if (known := facts_of(name)) is not None and known.thinking is False:
        return ()
    try:
        target = native_target(name, settings.api_base, "none", os.environ)
    except ModelError:
        target = None
    return tuple(
        (level, "" if target is None else said_thinking(level, target)) for level in LEVELS
    )
