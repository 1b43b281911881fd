"""Tries commands out: each in a view of the workspace, whose changes land only if they are taken."""

import asyncio
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial

from codeagent.changes.layer_landing import LayerLanding, plan
from codeagent.changes.layers import Effect, effects_of
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import EngineError, SandboxError, SandboxUnavailable
from codeagent.core.ports import CHECK, Command, CommandResult, OnOutput
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.guard import SessionResources
from codeagent.sandbox.layers import Layer, new_layer, remove_layer
from codeagent.sandbox.profile import HOME
from codeagent.sandbox.spec import SandboxSpec, View
from codeagent.sandbox.tasks import in_thread, run_to_end


class Trial:
    """What a command did in a view of the workspace, until it is closed."""

    def __init__(
        self, result: CommandResult, layer: Layer, resources: SessionResources, began_ns: int
    ) -> None:
        self.result = result
        self.began_ns = began_ns
        """When the command began, by the clock of the layer's file system."""
        self._layer = layer
        self._resources = resources
        self._effects: tuple[Effect, ...] | None = None

    async def effects(self) -> tuple[Effect, ...]:
        """Return what it would change. Raises TooMuch, OSError."""
        if self._effects is None:
            self._effects = await in_thread(self._read)
        return self._effects

    def _read(self) -> tuple[Effect, ...]:
        pinned, _ = self._resources.opened()
        with self._layer.upper() as upper, pinned.listed() as root:
            return tuple(effects_of(upper, root))

    async def land(self, left: Collection[str] = ()) -> None:
        """Land what it changed, without what it did at the paths in `left`; all or nothing, see
        `LayerLanding.land`."""
        steps = plan(await self.effects(), left)

        def work() -> None:
            pinned, _ = self._resources.opened()
            with self._layer.upper() as upper, pinned.listed() as root:
                LayerLanding(self._layer.folder, upper, root).land(steps)

        await run_to_end(in_thread(work))

    async def close(self) -> None:
        """Throw away what has not landed."""
        await in_thread(partial(remove_layer, self._layer))


@dataclass(frozen=True)
class _Prepared:
    """A container in which nothing has run yet."""

    container: SessionContainer
    layer: Layer
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

    async def run(self, command: Command, on_output: OnOutput) -> Trial:
        """Run a command as `Sandbox.run` does, in a view. Raises as that does."""
        prepared = await self._take()
        began_ns = prepared.layer.now()
        try:
            result = await prepared.container.run(command, on_output)
        except BaseException:
            await run_to_end(self._drop(prepared))
            raise
        await run_to_end(prepared.container.close())
        self.prepare()
        return Trial(result, prepared.layer, self._resources, began_ns)

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
        root, engine = self._resources.opened()
        volumes = await in_thread(partial(engine.volumes_of, beside))
        layer = await in_thread(partial(new_layer, self._spec.state_dir, root))
        view = View(layer.folder, beside, (volumes["/tmp"], volumes[HOME]))
        container = self._make(replace(self._spec, view=view))
        prepared = _Prepared(container, layer, beside)
        try:
            await container.start()
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
        await in_thread(partial(remove_layer, prepared.layer))
