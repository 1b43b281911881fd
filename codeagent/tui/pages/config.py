"""The page of `/config`: every setting with its value and origin; those of the user's own file can
be changed."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace

from codeagent.config.local_environment import user_config_file
from codeagent.config.reference import UNSET, Setting, every_setting
from codeagent.core.errors import ConfigError
from codeagent.core.sanitize import one_line
from codeagent.tui.facts import Caption, Fact, FactRow, Facts
from codeagent.tui.fuzzy import alike
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.picker import ValuePicker
from codeagent.tui.pages.slash import show_facts
from codeagent.tui.parts.marked_list import PickerRow


async def config(chat: ChatScreen, argument: str) -> None:
    """Handle `/config [setting [value]]`. Raises ConfigError."""
    name, _, text = argument.partition(" ")
    found = await _settings(chat)
    note = ""
    if name:
        setting = found.get(name)
        if setting is None or not setting.is_one_value:
            near = " or ".join(alike(name, found, 3))
            raise ConfigError(
                f"{one_line(name, 40)} cannot be set here{near and f'; did you mean {near}?'}"
            )
        value: str | None = text or await chat.app.push_screen_wait(_picker(setting))
        if value is not None:
            launcher = (await chat.outbox.ready()).launcher
            given = setting.read(value)
            kept = await asyncio.to_thread(launcher.keep, {name: given})
            found = await _settings(chat)
            now = found[name]
            note = f"{name}: {kept}, for the next start"
            if now.origin and given not in (None, now.value):
                note += f"; here it is {shown(now.value)}, from {now.origin}"
        if text:
            chat.tell(note)
            return
    facts = settings_facts(found.values(), str(user_config_file()))
    await show_facts(chat, replace(facts, note=note or facts.note, marked=name))


def _picker(setting: Setting) -> ValuePicker:
    rows = [PickerRow(word, word) for word in setting.choices]
    return ValuePicker(
        f"{setting.name}, now {one_line(shown(setting.value), 40)}",
        [*rows, PickerRow(UNSET, UNSET, "removes it from your file, so that the default holds")],
        setting.read,
        typing="type a value, or choose" if setting.is_free else "type to narrow the list",
        marked=shown(setting.value),
        typed_first=setting.is_free,
    )


async def _settings(chat: ChatScreen) -> dict[str, Setting]:
    """Read the settings as the next start would. Raises ConfigError."""
    client, options = await chat.outbox.ready(), replace(chat.launch_options, resume=None)
    settings = await asyncio.to_thread(client.launcher.settings, options)
    sections = {
        name: kind
        for extension in (await client.extensions()).on
        for name, kind in extension.settings.items()
    }
    return {one.name: one for one in every_setting(settings, sections)}


def settings_facts(settings: Iterable[Setting], file: str) -> Facts:
    """`file` is the user's own, in which a setting is changed."""
    rows: list[FactRow] = [Caption(("setting", "value", "from"))]
    section = ""
    for one in settings:
        before, section = section, one.name.rpartition(".")[0]
        if section != before:
            rows.append(Caption(("",)))
        origin = "yours" if one.origin == file else one.origin or "default"
        cells = (one.name, shown(one.value), origin)
        if one.is_one_value:
            does, command = "changes it", f"/config {one.name}"
            rows.append(Fact(cells=cells, about=one.about, does=does, command=command))
        else:
            about = f"{one.about} It is a table: write it into your file."
            rows.append(Fact(cells=cells, about=about, does="copies the file's path", copies=file))
    rules = Fact(cells=("rules", "", ""), does="shows those in force", command="/permissions")
    return Facts("Settings", [*rows, Caption(("",)), rules], f"yours are in {file}")


def shown(value: object) -> str:
    """Return a value as it is written in a file, without the quotes of a text."""
    if value is None:
        return UNSET
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
