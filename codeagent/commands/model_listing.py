"""Asks servers and providers for their models, what they can do and what they cost, for `/model` and
`/effort`."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from codeagent.commands.model_offers import ModelOffers, rows_at, rows_of
from codeagent.config.keys import KeyStore, server_variable
from codeagent.config.model_marks import MarkedModel, ModelMarksFile
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


@dataclass(frozen=True)
class _Source:
    """Somebody who is asked for models."""

    who: str
    ask: Coroutine[Any, Any, tuple[ModelRow, ...]]
    provider: str = ""
    """The one whose well-known models its answer replaces."""


async def listed(
    offers: ModelOffers,
    keys: KeyStore,
    marks: ModelMarksFile,
    settings: Settings,
    prompt: int | ModelRequest,
) -> AsyncIterator[ModelOffer]:
    """Do what `Launcher.offers` says."""
    offered, servers = await offers.offered_and_servers(settings)
    known = await asyncio.to_thread(_known_as, settings, marks)
    rows = _joined((), _called(offered, known))
    sources = [_served(server) for server in servers]
    sources += _providers(keys, rows)
    sources += _own_server(keys, settings, servers)
    sent = prompt if isinstance(prompt, int) else await asyncio.to_thread(prompt_tokens, prompt)
    waiting = {asyncio.ensure_future(source.ask): source for source in sources}
    problems: tuple[str, ...] = ()
    try:
        while True:
            rows = await asyncio.to_thread(_priced, rows, settings, sent)
            yield ModelOffer(rows, tuple(each.who for each in waiting.values()), problems)
            if not waiting:
                return
            answered, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in answered:
                source = waiting.pop(task)
                try:
                    rows = _joined(rows, _called(await task, known), source.provider)
                except CodeagentError as error:
                    problems = (*problems, f"{source.who}: {error}")
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _providers(keys: KeyStore, rows: Iterable[ModelRow]) -> Iterator[_Source]:
    """Yield the providers whose key is set, or kept: then their well-known models are ready."""
    ready = {row.name.partition("/")[0] for row in rows if row.ready and row.api_base is None}
    for provider, row in providers().items():
        if lists_models(provider) and (row.found_key(os.environ) or provider in ready):
            yield _Source(provider, _offered_by(provider, keys), provider)


async def _kept(keys: KeyStore, variables: Iterable[str]) -> str | None:
    """Return the first key that is kept; None if none can be found."""
    for variable in variables:
        with suppress(ConfigError):
            if key := await asyncio.to_thread(keys.find, variable):
                return key
    return None


def _own_server(
    keys: KeyStore, settings: Settings, found: Iterable[LocalServer]
) -> Iterator[_Source]:
    """Yield the server in use, unless it was found already."""
    base = settings.api_base
    if base and server_root(base) not in (server_root(each.api_base) for each in found):
        yield _Source(base, _at(keys, base))


async def _at(keys: KeyStore, base: str) -> tuple[ModelRow, ...]:
    key = await _kept(keys, [server_variable(base)]) or os.environ.get("OPENAI_API_KEY")
    match await server_at(base, key):
        case None:
            raise ModelError("it lists no models", kind="server")
        case KeyWanted():
            raise ModelError("it wants another key", kind="auth")
        case LocalServer() as server:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            named = replace(server, api_base=base)
            return await _with_facts(named, rows_at(named, f"at {base}"), headers)


def _served(server: LocalServer) -> _Source:
    return _Source(f"{server.name} on this machine", _with_facts(server, rows_of([server]), {}))


async def _with_facts(
    server: LocalServer, rows: Sequence[ModelRow], headers: Mapping[str, str]
) -> tuple[ModelRow, ...]:
    """Return the rows of a server, one for each of its models, with what it says about them."""
    facts = await ask_about(server.api_base, headers, server.models)
    if facts is None:
        raise ModelError("it does not say what its models can do", kind="server")
    found = zip(rows, server.models, strict=True)
    return tuple(replace(row, facts=facts[model]) for row, model in found)


async def _offered_by(provider: str, keys: KeyStore) -> tuple[ModelRow, ...]:
    row = providers()[provider]
    key = row.found_key(os.environ) or await _kept(keys, row.keys)
    if key is None:
        raise ConfigError("its key is gone")
    found = await models_of(provider, key, os.environ)
    return tuple(ModelRow(name, "hosted", True, facts=facts) for name, facts in found.items())


def _known_as(settings: Settings, marks: ModelMarksFile) -> Mapping[tuple[str, str], MarkedModel]:
    """Return what the user calls models of servers of their own, by server and bare name; blocks on
    a file."""
    places = [MarkedModel(name=settings.model or "", api_base=settings.api_base)]
    with suppress(ConfigError):  # the list says what is wrong with the file
        places += (*marks.read().favourites, *marks.read().recent)
    return {
        _at_server(each.name, each.api_base): each for each in reversed(places) if each.api_base
    }


def _at_server(name: str, api_base: str | None) -> tuple[str, str]:
    """Return what is the same for every way to write a model of one server."""
    return "".join(server_root(api_base or "")), name.removeprefix("openai/")


def _called(
    rows: Iterable[ModelRow], known: Mapping[tuple[str, str], MarkedModel]
) -> Iterator[ModelRow]:
    """Yield the rows with the names and addresses that the user gave them."""
    for row in rows:
        place = known.get(_at_server(row.name, row.api_base)) if row.api_base else None
        yield row if place is None else replace(row, name=place.name, api_base=place.api_base)


def _joined(
    rows: Iterable[ModelRow], answer: Iterable[ModelRow], provider: str = ""
) -> tuple[ModelRow, ...]:
    """Return the rows with what an answer says of them, and its further models; each is there once.

    Well-known models that their provider does not list are left out, unless one is in use.
    """
    known = {(row.name, row.api_base): row for row in rows}
    said: dict[tuple[str, str | None], ModelRow] = {}
    for row in answer:
        said.setdefault((row.name, row.api_base), row)
    for place, row in known.items():
        if place in said:
            said[place] = replace(row, facts=said[place].facts)
        elif not (provider and row.about == "hosted" and row.name.startswith(f"{provider}/")):
            said[place] = row
    return tuple({place: said[place] for place in (*known, *said) if place in said}.values())


def _rank(row: ModelRow) -> tuple[int, str]:
    """Return the place of a row: the one in use, those of servers, hosted ones by provider, those
    that need a key, the demo."""
    if row.about.startswith("in use"):
        return 0, ""
    if is_scripted(row.name):
        return 4, ""
    if not row.about.startswith("hosted"):
        return 1, ""
    return (2 if row.ready else 3), row.name.partition("/")[0]


def _priced(rows: Iterable[ModelRow], settings: Settings, prompt: int) -> tuple[ModelRow, ...]:
    """Return the rows in their order, with what the table and the user's own prices say; blocks on
    a file."""
    priced: list[ModelRow] = []
    for row in sorted(rows, key=_rank):
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
    """Return the levels of thinking that the model can be asked for, each with how it is asked;
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
