"""Runs recipes and `/recipes`: asks for trust, then for missing inputs, then runs the steps."""

import asyncio
import re
from collections.abc import Sequence

from codeagent.core.acts import RunRecipe
from codeagent.core.errors import CodeagentError, ConfigError
from codeagent.core.recipes import Recipe, RecipeInput, Recipes, find_recipe
from codeagent.core.sanitize import one_line, visible
from codeagent.tui.actions import Action
from codeagent.tui.commands import NOT_RUN, OFFERED
from codeagent.tui.pages.chat import ChatScreen
from codeagent.tui.pages.info import TextScreen
from codeagent.tui.pages.opening import FolderQuestion
from codeagent.tui.pages.picker import ValuePicker
from codeagent.tui.parts.marked_list import PickerRow
from codeagent.tui.session_client import SessionClient

_NONE = (
    "No recipes here yet: `NAME.md` with a prompt, or `NAME.yaml` with steps, below `.codeagent/commands` or in "
    "`commands` of your own configuration folder, run as `/NAME`."
)
_DISTRUSTED = "the recipes of this project no longer run"


async def offered(client: SessionClient) -> tuple[Action, ...]:
    """Return a slash command for each recipe there is now. Raises CodeagentError."""
    recipes = await asyncio.to_thread(client.launcher.recipes)
    return tuple(map(_row, recipes.listed))


def _row(recipe: Recipe) -> Action:
    about = f"{recipe.usage} · {recipe.description}" if recipe.usage else recipe.description
    named = () if recipe.numbered else recipe.inputs
    return Action(
        f"{OFFERED}.{recipe.name}",
        one_line(about, 200),
        does="codeagent.extensions.recipes.page:run",
        arguments=recipe.usage,
        inputs=tuple(
            (one.name, f"{one.means}: {one.description}".removesuffix(": ")) for one in named
        ),
        while_running=False,
        needs_conversation=True,
    )


async def run(chat: ChatScreen, argument: str) -> None:
    """Run `/NAME [inputs]`, given without the slash; if it cannot run, it is put back. Raises
    CodeagentError."""
    name, _, line = argument.partition(" ")
    client = await chat.outbox.ready()
    recipes = await asyncio.to_thread(client.launcher.recipes)
    try:
        recipe = find_recipe(recipes, name)
        if not recipe.trusted and not await _trust(chat, recipes):
            raise ConfigError(f"/{name} was not run: /recipes shows the recipes of this project")
        given = recipe.spelled(line)
        for one in recipe.missing(given):
            if (value := await _ask(chat, recipe, one)) is None:
                raise ConfigError(f"/{name} was not run: {one.name} is missing")
            given[one.name] = value
        act = RunRecipe(
            find_recipe(recipes, name),
            recipe.values(given),
            tightens=chat.launch_options.mode is not None,
        )
        if (refused := client.do(act)) is not None:
            raise CodeagentError(refused.reason)
    except CodeagentError as error:
        first, *wrong = map(str.strip, str(error).split("\n"))
        said = one_line(f"{first} {'; '.join(wrong)}", 400)
        raise CodeagentError(f"{said} · {NOT_RUN}") from error


async def recipes(chat: ChatScreen, argument: str) -> None:
    """Handle `/recipes [trust|distrust]`. Raises CodeagentError."""
    recipes = await asyncio.to_thread((await chat.outbox.ready()).launcher.recipes)
    match argument:
        case "":
            await chat.app.push_screen_wait(TextScreen("Recipes", recipes_markdown(recipes)))
        case "trust" if not recipes.untrusted:
            chat.tell("no recipes wait for your trust")
        case "trust":
            chat.tell(
                "trusted as they are now" if await _trust(chat, recipes) else "nothing was changed"
            )
        case "distrust":
            await asyncio.to_thread(recipes.distrust)
            chat.tell(_DISTRUSTED)
        case _:
            chat.tell(f"/recipes takes nothing, trust or distrust, not '{one_line(argument, 40)}'")


def recipes_markdown(recipes: Recipes) -> str:
    """Return every recipe in full, for the user to read before trusting it."""
    parts = ["# Recipes"]
    if recipes.untrusted:
        parts.append(
            "These are not trusted yet; `/recipes trust` asks about them: "
            + ", ".join(map(visible, recipes.untrusted))
        )
    parts += [f"- {problem.level}: {visible(str(problem))}" for problem in recipes.problems]
    for recipe in recipes.listed:
        parts.append(f"## /{recipe.name} {recipe.usage}".rstrip())
        parts.append(f"{recipe.description}\n\nfrom `{visible(recipe.where)}`")
        parts += [
            f"- `{one.name}`: {one.means}. {visible(one.description)}".rstrip()
            for one in recipe.inputs
        ]
        parts += [f"### {step.id}\n\n{_fenced(step.prompt)}" for step in recipe.steps]
    return "\n\n".join(parts if recipes.listed or recipes.problems else [_NONE])


def _fenced(text: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{visible(text.rstrip())}\n{fence}"


async def _trust(chat: ChatScreen, recipes: Recipes) -> bool:
    """Ask whether the project's recipes are trusted as they are, and remember a yes."""
    files = one_line(", ".join(recipes.untrusted), 300)
    question = (
        "Trust the recipes of this project?",
        "they come with this project; their text is sent to the model, and they set tools and model of their steps. "
        "They are trusted as they are now; you are asked again when they change. /recipes shows them in full.",
        ("{question.no} no (the default)", "{question.yes} yes, trust them as they are now"),
    )
    if not await chat.app.push_screen_wait(FolderQuestion(files, asks=question)):
        return False
    await asyncio.to_thread(recipes.trust)
    return not recipes.untrusted


async def _ask(chat: ChatScreen, recipe: Recipe, one: RecipeInput) -> str | None:
    """Ask for a missing input; None if the user declines."""
    rows: Sequence[PickerRow] = ()
    match one.type:
        case "choice":
            rows = [PickerRow(choice, choice) for choice in one.choices]
        case "boolean":
            rows = [PickerRow("true", "true", "yes"), PickerRow("false", "false", "no")]
        case "path":
            rows = [
                PickerRow(path, path) for path in await (await chat.outbox.ready()).launcher.files()
            ]
        case _:
            pass
    about = f" · {one_line(one.description, 80)}" if one.description else ""
    return await chat.app.push_screen_wait(
        ValuePicker(
            f"/{recipe.name} · {one.name}{about}", rows, one.parse, typing=f"{one.means}; type it"
        )
    )
