"""The lists of `/model` and `/effort`, and what is done with what was chosen."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from rich.cells import set_cell_size
from textual.app import ComposeResult
from textual.geometry import Size

from codeagent.config.model_marks import MarkedModel, ModelMarks
from codeagent.core.acts import SetEffort, SetModel
from codeagent.core.budget import Effort, parse_effort, said_effort
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.model import ModelFacts, ModelInUse, from_now_on, same_provider
from codeagent.core.sanitize import one_line
from codeagent.tui.bindings import bindings
from codeagent.tui.launcher import Missing, ModelOffer, ModelRow
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.opening import FirstRun
from codeagent.tui.pages.picker import Picker
from codeagent.tui.parts.marked_list import PickerList, PickerRow
from codeagent.tui.parts.rows import SEPARATOR, RowsWidget, RowWidget
from codeagent.tui.rendering.lines import Line, Styled, cut_end, cut_middle, flat, line, paragraph
from codeagent.tui.rendering.palette import Palette
from codeagent.tui.session_client import SessionClient
from codeagent.tui.transcript.spelling import dollars, tokens

_ANOTHER_KEY = "another key"
"""The key of a row in the list of models; it cannot be a model's name."""
_SIZES = (8, 13, 7, 8, 8)
"""The cells of each column with the gap before it, the most important first."""
_GAP = 2
_SIGNS = 3
"""Cells before a name."""
_NAME = 28
"""Cells that a name has before columns are left out."""
_WHERE = 12
"""Cells from which on there is room to say where a model is."""
_AROUND = 4
"""Rows of the panel besides the list and what is said of a model."""


@dataclass(frozen=True)
class _ModelLine(PickerRow):
    """A row, and the texts of its columns."""

    signs: str = ""
    """Whether it is in use, and a favourite."""
    cells: tuple[str, ...] = ()
    """A text for each column; none if the model cannot be used yet."""
    where: str = ""


_TITLES = _ModelLine(
    "", "model", cells=("window", "$ in/out", "tools", "thinks", "images"), where="where"
)


async def model(chat: ChatScreen, argument: str) -> None:
    """Handle `/model [name]`; asks for the key that it needs."""
    client = await chat.outbox.ready()
    now = client.agent.model
    if argument:
        row = _asked_for(argument, await client.models(), now)
    else:
        page = ModelPicker(client, now)
        chosen = await chat.app.push_screen_wait(page)
        if chosen == _ANOTHER_KEY:
            asked = Missing("key", _whose_key(now), variable=now.api_base or "")
            if not await _new_key(chat, asked):
                return
            row = ModelRow(now.name, "", ready=True, api_base=now.api_base)
        elif chosen is None:
            return
        else:
            row = page.models[chosen]
    missing = await client.missing(row)
    if missing is not None and missing.kind == "key" and await _new_key(chat, missing):
        missing = await client.missing(row)
    if missing is not None:
        chat.tell(missing.text)
    elif (refused := await client.finish(SetModel(row.name, row.api_base))) is not None:
        chat.tell(refused.reason)
    else:
        chat.launch_options = replace(
            chat.launch_options, model=row.name, api_base=row.api_base, chosen=True
        )
        kept = await client.keep({"model": row.name, "api_base": row.api_base})
        server = from_now_on(client.agent.model.server, now.server)
        chat.tell(f"model: {row.name}{server}{kept}")
        await asyncio.to_thread(client.model_marks.use, _place(row))


def _whose_key(now: ModelInUse) -> str:
    """Return the title of the page that takes a key: it says which server the key goes to."""
    if now.api_base is None:
        return "Paste an API key: its first letters tell the provider"
    return f"Paste the API key for {one_line(now.api_base, 80)}: it goes to this server only"


def _asked_for(name: str, models: Iterable[ModelRow], now: ModelInUse) -> ModelRow:
    """Return the model of a typed name: the one that a local server offers, else at the server of
    the present one."""
    row = next((row for row in models if row.name == name), ModelRow(name, "", ready=True))
    stays = row.api_base is None and same_provider(name, now.name)
    return replace(row, api_base=now.api_base) if stays else row


async def _new_key(chat: ChatScreen, missing: Missing) -> bool:
    """Ask for a new key; returns whether one was kept."""
    page = FirstRun(missing, (await chat.outbox.ready()).keep_key)
    await chat.app.push_screen_wait(page)
    return page.key_kept


async def effort(chat: ChatScreen, argument: str) -> None:
    """Handle `/effort [off|low|medium|high|TOKENS]`. Raises ConfigError."""
    client = await chat.outbox.ready()
    wanted = parse_effort(argument) if argument else await _pick_effort(chat, client)
    if wanted is None:
        return
    refused = await client.finish(SetEffort(wanted))
    if refused is not None:
        chat.tell(refused.reason)
        return
    chat.tell(
        f"thinking: {said_effort(wanted)}, from the next answer on{await client.keep({'thinking': wanted})}"
    )


async def _pick_effort(chat: ChatScreen, client: SessionClient) -> Effort | None:
    now, levels = client.agent.model, await client.efforts()
    if not levels:
        chat.tell(f"{now.name} is not known to think; /effort LEVEL is kept for models that do")
        return None
    present = "the provider's default" if now.effort is None else said_effort(now.effort)
    rows = [PickerRow(said_effort(level), said_effort(level), about) for level, about in levels]
    chosen = await chat.app.push_screen_wait(
        Picker(
            f"How much {one_line(now.name, 40)} thinks: {present}",
            rows,
            marked=present,
            typing="type to narrow the list; /effort 8000 sets a number of tokens",
        )
    )
    return None if chosen is None else parse_effort(chosen)


class ModelPicker(Picker):
    """Lists models as their servers and providers answer: favourites first, then those used
    last."""

    BINDINGS = bindings("picker", "ModelPicker")

    def __init__(self, client: SessionClient, now: ModelInUse) -> None:
        self.models: dict[str, ModelRow] = {}
        """By the keys of the rows."""
        self._client = client
        self._now = _place(now)
        whose = f"for {now.server}: " if now.api_base else ""
        self._paste = _ModelLine(
            _ANOTHER_KEY, "Paste an API key", where=f"{whose}tried once, then kept"
        )
        self._marks = ModelMarks()
        self._first: tuple[MarkedModel, ...] = ()
        """The favourites and those used last, as they were when the list was opened."""
        self._offer = ModelOffer(())
        self._trouble: tuple[str, ...] = ()
        self._notes = _Notes()
        rows = _ModelList(())
        self._head = _Head(rows)
        super().__init__("Choose the model", (), on_highlight=self._describe, drawn_by=rows)

    def body(self) -> ComposeResult:
        yield self._head
        yield self.list
        yield self._notes

    def on_mount(self) -> None:
        self.run_worker(self._fill())

    def rows_in(self, size: Size) -> int:
        most = size.height * 3 // 4 - _AROUND - _detail_rows(size.width)
        return min(self._total, most)

    def hints(self) -> Sequence[str]:
        choose, *others = super().hints()
        return (choose, "{picker.favourite} favourite", *others)

    async def _fill(self) -> None:
        """Show each answer as it comes."""
        try:
            self._marks = await asyncio.to_thread(self._client.model_marks.read)
        except ConfigError as error:
            self._trouble = (str(error),)
        self._first = (*self._marks.favourites, *self._marks.recent)
        async for offer in self._client.offers():
            self._offer = offer
            self._show()

    def _show(self) -> None:
        first, offered = self._first, {_place(row): row for row in self._offer.rows}
        rows = [offered[place] for place in dict.fromkeys((*first, *offered)) if place in offered]
        begun = bool(self.models)
        self.models = {_key(_place(row)): row for row in rows}
        self._total = len(rows) + 1
        self.list.refill(
            [*map(self._line_of, rows), self._paste],
            self.typed,
            mark=None if begun else _key(self._now),
        )
        self.list.styles.height = max(1, self.rows_in(self.size))
        self._head.refresh()
        self._count()
        self._describe(self.chosen or "")

    def said_beside(self) -> str:
        asking = ", ".join(self._offer.waiting)
        return f"asking {cut_end(asking, 40)}{SEPARATOR}" if asking else ""

    def _line_of(self, row: ModelRow) -> "_ModelLine":
        place = _place(row)
        used = "●" if place == self._now else " "
        return _ModelLine(
            _key(place),
            row.name,
            _described(row),
            warn=not row.ready,
            signs=used + ("★" if place in self._marks.favourites else " "),
            cells=_cells(row.facts or ModelFacts()) if row.ready else (),
            where=row.about,
        )

    def _describe(self, key: str) -> None:
        """Show everything known about the marked model, and which servers did not answer."""
        self.tell("")
        row = self.models.get(key)
        self._notes.show(
            "" if row is None else f"{row.name}{SEPARATOR}{_described(row)}",
            (*self._trouble, *self._offer.problems),
        )

    async def action_favourite(self) -> None:
        """Add the marked model to the favourites, or remove it."""
        row = self.models.get(self.chosen or "")
        if row is None:
            return
        place, file = _place(row), self._client.model_marks
        try:
            self._marks = await asyncio.to_thread(file.toggle, place)
        except ConfigError as error:
            self.tell(str(error))
            return
        self._show()
        became = "a favourite" if place in self._marks.favourites else "no longer a favourite"
        self.tell(f"{row.name} is {became}; kept in {file.file}")


def _place(model: ModelRow | ModelInUse) -> MarkedModel:
    return MarkedModel(name=model.name, api_base=model.api_base)


def _key(place: MarkedModel) -> str:
    return place.name if place.api_base is None else f"{place.name} at {place.api_base}"


class _ModelList(PickerList):
    """Rows with a column for each fact, as many as there is room for."""

    def parts(self, row: PickerRow, width: int, palette: Palette, *, marked: bool) -> Styled:
        assert isinstance(row, _ModelLine)
        most = min(self.longest, max(_NAME, width - _SIGNS - sum(_SIZES)))
        room = width - _SIGNS - most
        cells = ""
        for text, size in zip(row.cells, _SIZES, strict=False):
            cells += f"{text:^{size}}" if len(cells) + size <= room else ""
        room -= len(cells) + _GAP
        where = cut_end(flat(row.where), room) if room >= _WHERE or not row.cells else ""
        beside = None if marked else palette.warning if row.warn else palette.muted
        return [
            (f"{row.signs:{_SIGNS}}", palette.accent),
            (set_cell_size(cut_middle(flat(row.text), most), most), palette.text),
            (f"{cells}{'':{_GAP}}{where}", beside),
        ]


class _Head(RowWidget):
    """Draws the titles above the list."""

    def __init__(self, rows: _ModelList) -> None:
        super().__init__()
        self._rows = rows

    def row(self, width: int, palette: Palette) -> Line:
        room = self._rows.scrollable_content_region.width - 4
        titles = self._rows.parts(_TITLES, room, palette, marked=False)
        return line([("   ", None), *((text, palette.muted) for text, _ in titles)])


class _Notes(RowsWidget):
    """Draws what is known about the marked model, and which servers did not answer."""

    DEFAULT_CSS = """
    _Notes { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._detail = ""
        self._problems: tuple[str, ...] = ()

    def show(self, detail: str, problems: tuple[str, ...]) -> None:
        self._detail = detail
        self._problems = problems
        self.refresh(layout=True)

    def rows(self, width: int, palette: Palette) -> Sequence[Line]:
        detail = paragraph(self._detail, width - 4, palette.muted, first="   ")
        empty = [line([])] * (_detail_rows(width) - len(detail))
        problems = (
            paragraph(f"! {flat(each)}", width - 4, palette.warning, first="   ")
            for each in self._problems
        )
        return [*detail, *empty, *chain.from_iterable(problems)]


def _detail_rows(width: int) -> int:
    """Return how many rows are kept for what is known about a model."""
    return 2 if width >= 110 else 3 if width >= 80 else 4


def _cells(facts: ModelFacts) -> tuple[str, ...]:
    """Return a text for each column: ✓ yes, – no, ? not known."""
    asked, said = facts.prices or (None, None)
    return (
        f"{tokens(facts.window) if facts.window else '?':>6}",
        "–" if asked is None else f"{asked:.3g}/{said:.3g}",
        *(
            "?" if can is None else "✓" if can else "–"
            for can in (facts.tools, facts.thinking, facts.images)
        ),
    )


def _described(row: ModelRow) -> str:
    """Return everything that is known about a model, in words."""
    facts = row.facts or ModelFacts()
    abilities = {"tools": facts.tools, "thinking": facts.thinking, "images": facts.images}
    said = [
        row.about,
        f"window {tokens(facts.window)}" if facts.window else "",
        "${:g} in, ${:g} out per million tokens".format(*facts.prices) if facts.prices else "",
        ", ".join(
            word if can else f"no {word}" for word, can in abilities.items() if can is not None
        ),
        f"next request about {dollars(row.next_cost)} if nothing is cached"
        if row.next_cost
        else "",
    ]
    return SEPARATOR.join(filter(None, said))
