"""Opens what the screen needs on this machine: conversations, sessions, models, keys, files."""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.commands.arguments import open_store, settings_of
from codeagent.commands.model_offers import ModelOffers
from codeagent.config.choices import Choices, keep_choices
from codeagent.config.extensions import Extensions, all_extensions
from codeagent.config.keys import KeyStore
from codeagent.config.layers import ENVIRONMENT, check_user
from codeagent.config.local_environment import (
    LocalEnvironment,
    config_dir,
    folders_of,
    git_elsewhere,
    origin_of,
    state_dir,
    user_config_file,
    worktree_name,
)
from codeagent.config.settings import Settings
from codeagent.core.budget import Effort
from codeagent.core.errors import CodeagentError
from codeagent.core.events import KnownEvent, UnknownEvent
from codeagent.core.messages import Message
from codeagent.core.model import ModelRequest
from codeagent.core.recipes import Recipes
from codeagent.core.redact import Redactor
from codeagent.core.runtime import Session, SessionSummary
from codeagent.core.tool import ToolError
from codeagent.disk.opens import open_folder
from codeagent.llm.catalog import is_scripted
from codeagent.llm.providers import key_variables
from codeagent.sandbox.described_image import DESCRIBED
from codeagent.session.fold import CHOICES, fold, last_mode, last_model
from codeagent.tools.ripgrep import find_ripgrep, list_files
from codeagent.tui.launcher import LAST, OWN_FLAGS, LaunchOptions, Missing, ModelOffer, ModelRow
from codeagent.workspace.files import LocalWorkspace

if TYPE_CHECKING:
    from codeagent.commands.ports import App
    from codeagent.config.model_marks import ModelMarksFile

_MOST_FILES = 200_000
Events = tuple[KnownEvent | UnknownEvent, ...]


class LocalLauncher:
    """Implements the Launcher of `tui.launcher` for one workspace."""

    def __init__(
        self, workspace: Path, app: "App", keys: KeyStore | None = None, *, named: bool = False
    ) -> None:
        """`workspace` is absolute, `named` if the user named it; `keys` are those of the
        configuration unless given."""
        self._workspace = workspace
        self._app = app
        self._named = named
        self._keys = keys or KeyStore(config_dir())
        self._models = ModelOffers(self._keys)
        self._store = open_store()

    @property
    def workspace(self) -> Path:
        return self._workspace

    def settings(self, options: LaunchOptions) -> Settings:
        """Load the settings, with the choices of a resumed session unless a flag says otherwise.

        Raises ConfigError, SessionError.
        """
        own = {name: getattr(options, name) for name in OWN_FLAGS}
        given = argparse.Namespace(**{**options.flags, **own})
        settings = settings_of(given, self._workspace)
        if options.chosen:
            chosen = dict.fromkeys(
                settings.origins.keys() & {"model", "api_base"}, "your choice on the screen"
            )
            settings = replace(settings, origins=settings.origins | chosen)
        return (
            settings
            if options.resume is None
            else self._as_recorded(settings, options, self.find(options.resume))
        )

    def extensions(self, settings: Settings) -> Extensions:
        return all_extensions().without(settings.extensions.off)

    async def missing(self, settings: Settings, options: LaunchOptions) -> Missing | None:
        if options.resume is None and not options.proceed and (odd := self._odd_place()):
            return Missing("place", odd)
        if settings.sandbox.kind == "docker" and (
            found := await asyncio.to_thread(self._git_question, options)
        ):
            return found
        if (image := await asyncio.to_thread(self._image_question, settings, options)) is not None:
            return image
        if settings.model is None:
            return await self._models.missing(settings)
        variables = await asyncio.to_thread(key_variables, settings.model, settings.api_base)
        if not variables or await self._models.has_key(variables):
            return None
        return Missing(
            "key", f"{settings.model} needs a key: {variables[0]} is not set", variable=variables[0]
        )

    async def open(
        self, settings: Settings, *, resume: str | None, tell: Callable[[str], None]
    ) -> Session:
        loop = asyncio.get_running_loop()

        def tell_here(text: str) -> None:
            loop.call_soon_threadsafe(tell, text)

        local = replace(
            LocalEnvironment.of_user(self._workspace),
            find_key=self._keys.find,
            copy_of=origin_of(self._workspace),
        )
        return await self._app.open_session(
            settings, local, resume=resume, attended=True, tell=tell_here
        )

    def sessions(self) -> tuple[SessionSummary, ...]:
        here = folders_of(self._workspace)
        return tuple(item for item in self._store.summaries() if item.workspace in here)

    def find(self, session: str) -> str:
        return (
            self._store.last(*folders_of(self._workspace))
            if session == LAST
            else self._store.find(session)
        )

    def enter(self, session: str) -> str:
        found = self.find(session)
        self._store.check_free(found)
        self._workspace = self._store.folder_of(found, self._workspace, named=self._named)
        return found

    def recorded(self, session_id: str, after: int = 0) -> Events:
        return tuple(self._store.with_children(self._store.read_after(session_id, after)))

    def messages(self, session_id: str) -> tuple[Message, ...]:
        return fold(self._store.read(session_id).events).messages

    def rename(self, session_id: str, title: str) -> None:
        self._store.titles.give(session_id, " ".join(title.split()))

    def export(self, session_id: str, name: str) -> Path:
        from codeagent.session.export import write_down  # needed only for an export

        path = self._workspace / Path(name).expanduser()
        write_down(self._store, session_id, path, None, Redactor(os.environ))
        return path

    def fork(self, session_id: str, before: int | None) -> str:
        from codeagent.session.upkeep import fork  # needed only for a copy

        return fork(self._store, session_id, before)

    async def models(self, settings: Settings) -> tuple[ModelRow, ...]:
        rows, _ = await self._models.offered(settings)
        return rows

    def offers(self, settings: Settings, prompt: int | ModelRequest) -> AsyncIterator[ModelOffer]:
        from codeagent.commands.model_listing import listed  # not before the user chooses a model

        return listed(self._models, self.model_marks, settings, prompt)

    @property
    def model_marks(self) -> "ModelMarksFile":
        from codeagent.config.model_marks import ModelMarksFile  # not during the start

        return ModelMarksFile(state_dir() / "models.json")

    async def efforts(self, settings: Settings) -> tuple[tuple[Effort, str], ...]:
        from codeagent.commands.model_listing import efforts_of  # likewise

        return await asyncio.to_thread(efforts_of, settings)

    async def keep_key(self, variable: str, value: str) -> str:
        return await self._models.keep_key(variable, value)

    def keep(self, choices: Choices) -> str:
        if is_scripted(str(choices.get("model", ""))):
            return ""
        from codeagent.tools.shell.rules import decides  # not during the start

        check = partial(check_user, decides=decides)
        keep_choices(user_config_file(), self._workspace, choices, check)
        set_too = (
            name
            for name, path in ENVIRONMENT.items()
            if os.environ.get(name) and ".".join(path) in choices
        )
        return next(
            (f"kept, but {name} in the environment wins over it" for name in set_too), "kept"
        )

    async def files(self) -> tuple[str, ...]:
        """List at most 200,000 files and their folders. Raises CodeagentError."""
        program = await asyncio.to_thread(find_ripgrep, self._workspace)
        if program is None:
            raise CodeagentError(
                "ripgrep is missing, so files cannot be listed: install codeagent again"
            )
        try:
            root = open_folder(self._workspace, follow=True)
        except OSError as error:
            raise CodeagentError(f"{self._workspace} cannot be read ({error.strerror})") from error
        try:
            above = await asyncio.to_thread(_rules_from_above, self._workspace)
            paths = await list_files(program, root, _MOST_FILES, from_above=above)
        except ToolError as error:
            raise CodeagentError(str(error)) from error
        finally:
            os.close(root)
        return await asyncio.to_thread(_with_folders, paths)

    def recipes(self) -> Recipes:
        return self._app.read_recipes(LocalEnvironment.of_user(self._workspace))

    def git_status(self) -> tuple[str, int]:
        from codeagent.workspace.git_status import git_status  # not during the start

        if origin_of(self._workspace) is not None:
            return f"worktree {worktree_name(self._workspace.resolve().parent)}", 0
        return git_status(self._workspace)

    def _as_recorded(self, settings: Settings, options: LaunchOptions, session_id: str) -> Settings:
        events = tuple(self._store.read_only(session_id, CHOICES))
        changes: dict[str, Any] = {}
        if options.mode is None and (mode := last_mode(events)) is not None:
            changes["mode"] = mode
        if options.model is None and (last := last_model(events)) is not None:
            model, chosen = last
            if chosen:
                changes |= {"model": model.name, "api_base": model.api_base}
            elif settings.model is None:
                changes["model"] = model.name
            if model.effort is not None and options.thinking is None:
                changes["thinking"] = model.effort
        return replace(settings, **changes)

    def _git_question(self, options: LaunchOptions) -> Missing | None:
        """Return the question about a git directory outside the workspace; None if there is none.

        It is asked again if the answer was about another one.
        """
        elsewhere = git_elsewhere(self._workspace, config_dir())
        if elsewhere is None or elsewhere.answer is not None:
            return None
        digest = elsewhere.git.digest
        answer = options.git
        if answer.given is None or (answer.given and answer.seen != digest):
            text = f"this is a worktree or a submodule; its git directory is elsewhere, at {elsewhere.git.directory}"
            return Missing("git", text, digest=digest)
        elsewhere.keep(answer.given)
        return None

    def _image_question(self, settings: Settings, options: LaunchOptions) -> Missing | None:
        """Ask about the image that the workspace describes; None if there is nothing to ask."""
        if settings.sandbox.kind != "docker" or settings.sandbox.image not in (None, DESCRIBED):
            return None
        root = origin_of(self._workspace) or self._workspace
        if (images := self._app.image_source(settings, root, config_dir())) is None:
            return None
        asked = images.question(options.image.given, options.image.seen)
        return None if asked is None else Missing("image", asked.text, digest=asked.digest)

    def _odd_place(self) -> str:
        """Return why this is probably not the intended folder; empty if it may be."""
        folder = self._workspace.resolve()
        if folder == Path("/"):
            return "this is the root of the file system, not a project"
        if folder == Path.home().resolve():
            return "this is your home folder, not a project"
        if not any(os.path.lexists(above / ".git") for above in (folder, *folder.parents)):
            return "this folder is not in a git repository"
        return ""


def _rules_from_above(folder: Path) -> bool:
    """Return whether ignore rules of folders above apply; called in a thread, which closes what it
    opened."""
    with closing(LocalWorkspace(folder)) as workspace:
        return workspace.ignores().from_above


def _with_folders(paths: Iterable[str]) -> tuple[str, ...]:
    found: set[str] = set()
    for path in paths:
        found.add(path)
        end = path.rfind("/")
        while end > 0 and (folder := path[: end + 1]) not in found:
            found.add(folder)
            end = path.rfind("/", 0, end)
    return tuple(sorted(found))
