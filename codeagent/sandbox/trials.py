"""Tries commands out: each in a view of the workspace, whose changes land only if they are taken."""

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from codeagent.changes.layer_landing import LayerLanding, plan
from codeagent.changes.layers import changes_of, effects_of, replace_content
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.effects import Effect
from codeagent.core.errors import EngineError, SandboxError, SandboxUnavailable
from codeagent.core.sandbox import CHECK, Command, CommandResult, OnOutput
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.guard import SessionResources
from codeagent.sandbox.layers import Layer, remove_layer
from codeagent.sandbox.profile import HOME
from codeagent.sandbox.spec import SandboxSpec, View
from codeagent.sandbox.tasks import in_thread, run_to_end

T = TypeVar("T")
_MOST_SHOWN = 200
_MOST_BYTES = 8 << 20
"""How many files, and how much of them, are read to be shown."""


class TriedCommand:
    """Implements `codeagent.core.sandbox.Trial`."""

    def __init__(
        self, result: CommandResult, layer: Layer, resources: SessionResources, began_ns: int
    ) -> None:
        self._result = result
        self._layer = layer
        self._resources = resources
        self._began_ns = began_ns

    @property
    def result(self) -> CommandResult:
        return self._result

    @property
    def began_ns(self) -> int:
        return self._began_ns

    async def effects(self) -> tuple[Effect, ...]:
        return await self._with_folders(lambda upper, root: tuple(effects_of(upper, root)))

    async def changes(self, effects: Sequence[Effect]) -> tuple[Change[Node], ...]:
        return await self._with_folders(
            lambda upper, root: changes_of(
                upper, root, effects, files=_MOST_SHOWN, size=_MOST_BYTES
            )
        )

    async def replace(self, change: Change[Node]) -> None:
        assert change.after is not None
        data = change.after.data
        await self._with_folders(lambda upper, root: replace_content(upper, change.path, data))

    async def land(self, effects: Sequence[Effect], left: Collection[str] = ()) -> None:
        steps = plan(effects, left)
        await run_to_end(
            self._with_folders(
                lambda upper, root: LayerLanding(self._layer.folder, upper, root).land(steps)
            )
        )

    async def close(self) -> None:
        await in_thread(partial(remove_layer, self._layer))

    async def _with_folders(self, work: Callable[[int, int], T]) -> T:
        """Do the work in a thread, with the layer's folder and the workspace's open."""

        def opened() -> T:
            pinned, _ = self._resources.opened()
            with self._layer.upper() as upper, pinned.listed() as root:
                return work(upper, root)

        return await in_thread(opened)


@dataclass(frozen=True)
class _Prepared:
    """A container in which nothing has run yet."""

    container: SessionContainer
    beside: str
    """Id of the session's container then."""


class Trials:
    """Runs each command in a container and a layer of its own; the next container is made while
    nobody waits for it."""

    def __init__(
        self,
        spec: SandboxSpec,
        resources: SessionResources,
        make: Callable[[SandboxSpec], SessionContainer],
        session: SessionContainer,
    ) -> None:
        """`session`: the container whose loopback and scratch a view shares."""
        self._spec = spec
        self._resources = resources
        self._make = make
        self._session = session
        self._next: asyncio.Task[_Prepared] | None = None
        self._why_not: str | None = None

    async def impossible(self) -> str:
        """Return why no command can be tried out, as a phrase; empty if they can. Tests it the
        first time."""
        if self._why_not is None:
            try:
                self._why_not = await self._tested()
            except SandboxError as error:
                self._why_not = str(error)
        return self._why_not

    async def ready(self) -> None:
        """Wait until a command can begin at once, if one can be tried out. Raises nothing."""
        if not self._why_not and self._next is not None:
            await asyncio.wait({self._next})

    async def run(self, command: Command, on_output: OnOutput) -> TriedCommand:
        """Run a command as `Sandbox.run` does, in a view. Raises as that does."""
        prepared = await self._take()
        began_ns = prepared.container.layers[-1].now()
        try:
            result = await prepared.container.run(command, on_output)
        except BaseException:
            await run_to_end(self._drop(prepared))
            raise
        await run_to_end(prepared.container.close())
        self.prepare()
        *given_up, layer = prepared.container.layers
        for each in given_up:
            await in_thread(partial(remove_layer, each))
        return TriedCommand(result, layer, self._resources, began_ns)

    def prepare(self) -> None:
        """Make the next container, beside whatever happens meanwhile."""
        if self._next is None and not self._resources.shut:
            self._next = asyncio.create_task(self._prepared())
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def close(self) -> None:
        """Close; the session's resources are shut before, and closed after this."""
        following = self._next
        self._next = None
        if following is None:
            return
        following.cancel()
        with suppress(SandboxError, asyncio.CancelledError):
            await self._drop(await following)

    async def _take(self) -> _Prepared:
        self.prepare()
        following = self._next
        if following is None:
            raise SandboxUnavailable("the sandbox is closed", "start codeagent again")
        try:
            prepared = await asyncio.shield(following)
        finally:
            self._next = None if following.done() else self._next
        if prepared.beside == await self._session.id():
            return prepared
        await run_to_end(self._drop(prepared))
        return await self._take()

    async def _prepared(self) -> _Prepared:
        beside = await self._session.id()
        engine = self._resources.opened()[1]
        volumes = await in_thread(partial(engine.volumes_of, beside))
        view = View(beside, (volumes["/tmp"], volumes[HOME]))
        prepared = _Prepared(self._make(replace(self._spec, access=view)), beside)
        try:
            await prepared.container.start()
        except BaseException:
            await run_to_end(self._drop(prepared))
            raise
        return prepared

    async def _tested(self) -> str:
        """Try out a command that makes a file; return what was wrong, empty if nothing was."""
        name = f"{CHECK}{secrets.token_hex(8)}"

        async def ignore(stream: object, data: bytes) -> None: ...

        trial = await self.run(Command(f"echo > {name}", ""), ignore)
        try:
            effects = await trial.effects()
            found = [effect.path for effect in effects if effect.after is not None]
            root, _ = self._resources.opened()
            if found != [name] or effects[0].before is not None:
                return "what is written in a view does not arrive in its layer alone"
            if root.find(name) is not None:
                return "what is written in a view changes the workspace"
            return ""
        except (OSError, EngineError) as error:
            return f"what is written in a view cannot be read: {error}"
        finally:
            await trial.close()

    async def _drop(self, prepared: _Prepared) -> None:
        await prepared.container.close()
        for layer in prepared.container.layers:
            await in_thread(partial(remove_layer, layer))
