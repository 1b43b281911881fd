"""Tries commands out: each in a view of the workspace, whose changes land only if they are taken."""

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from codeagent.changes.layer_landing import plan
from codeagent.changes.layers import changes_of, effects_of, replace_content
from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node
from codeagent.core.dataclass import dataclass
from codeagent.core.effects import Effect
from codeagent.core.errors import SandboxError, SandboxLost, SandboxUnavailable
from codeagent.core.sandbox import CHECK, Command, CommandResult, OnOutput
from codeagent.sandbox.container import SessionContainer
from codeagent.sandbox.engine import labels
from codeagent.sandbox.exec_stream import lost
from codeagent.sandbox.guard import SessionResources
from codeagent.sandbox.layers import Layer, remove_layer, spent
from codeagent.sandbox.profile import HOME, KEEPER, ContainerSpec, create_arguments
from codeagent.sandbox.spec import Bind, SandboxSpec, View
from codeagent.sandbox.tasks import all_done, in_thread, run_to_end, started, within_disk

T = TypeVar("T")
_MOST_SHOWN = 200
_MOST_BYTES = 8 << 20
"""How many files, and how much of them, are read to be shown."""
_MOST_SPENT = 1000
"""How many folders are removed at once."""


@dataclass(frozen=True)
class TriedCommand:
    """Implements `codeagent.core.sandbox.Trial`."""

    result: CommandResult
    began_ns: int
    layer: Layer | None
    """None: the workspace was read-only for it."""
    resources: SessionResources

    async def effects(self) -> tuple[Effect, ...]:
        if self.layer is None:
            return ()
        return await self._with_folders(lambda upper, root: tuple(effects_of(upper, root)))

    async def changes(self, effects: Sequence[Effect]) -> tuple[Change[Node], ...]:
        return await self._with_folders(
            lambda upper, root: changes_of(
                upper, root, effects, files=_MOST_SHOWN, size=_MOST_BYTES
            )
        )

    async def land(
        self,
        effects: Sequence[Effect],
        left: Collection[str] = (),
        parts: Sequence[Change[Node]] = (),
    ) -> None:
        layer = self.layer
        assert layer is not None

        def land(upper: int, root: int) -> None:
            given = {
                part.path: replace_content(upper, part.path, part.after.data)
                for part in parts
                if part.after is not None
            }
            wanted = [replace(each, after=given.get(each.path, each.after)) for each in effects]
            with layer.landing(root) as landing:
                landing.land(plan(wanted, left))

        await run_to_end(self._with_folders(land))

    async def close(self) -> None:
        if self.layer is not None:
            await in_thread(partial(remove_layer, self.layer))

    async def _with_folders(self, work: Callable[[int, int], T]) -> T:
        """Do the work in a thread, with the layer's folder and the workspace's open."""

        def opened() -> T:
            assert self.layer is not None
            pinned, _ = self.resources.opened()
            with self.layer.upper() as upper, pinned.listed() as root:
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
        self._written = (spec.state_dir, *spec.written)
        self._next: asyncio.Task[_Prepared] | None = None
        self._taking = asyncio.Lock()
        """Held while a command waits for its container: no two commands get the same one."""
        self._used: list[_Prepared] = []
        """Those in which a command runs."""
        self._testing: asyncio.Task[str] | None = None
        self.read_only = ""
        """See `Sandbox.tried_read_only`."""
        self._cleaning: asyncio.Task[None] | None = None

    async def impossible(self) -> str:
        """Return why no command can be tried out, as a phrase; empty if they can. Tests it the
        first time."""
        if self._testing is None:
            self._testing = started(self._tested())
        return await asyncio.shield(self._testing)

    async def ready(self) -> None:
        """Wait until a command can begin at once, if one can be tried out. Raises nothing."""
        if self._next is not None:
            await asyncio.wait({self._next})

    async def run(self, command: Command, on_output: OnOutput) -> TriedCommand:
        """Run a command as `Sandbox.run` does, in a view. Raises as that does."""
        prepared = await self._take()
        layers = prepared.container.layers
        self._used.append(prepared)
        try:
            began_ns = await in_thread(layers[-1].now) if layers else 0
            result = await within_disk(prepared.container.run(command, on_output), *self._written)
        except BaseException:
            await run_to_end(self._drop(prepared))
            raise
        finally:
            self._used.remove(prepared)
        if not await run_to_end(prepared.container.close()):
            await run_to_end(self._drop(prepared))
            raise SandboxLost(lost("its container could not be removed, so nothing is taken"))
        self._prepare()
        for given_up in layers[:-1]:
            await in_thread(partial(remove_layer, given_up))
        layer = layers[-1] if layers else None
        return TriedCommand(result, began_ns, layer, self._resources)

    def _prepare(self) -> None:
        """Make the next container, beside whatever happens meanwhile; again if that had failed."""
        made = self._next
        failed = made is not None and made.done() and (made.cancelled() or made.exception())
        if (made is None or failed) and not self._resources.shut:
            self._next = started(self._prepared())

    async def close(self) -> None:
        """Close; the session's resources are shut before, and closed after this."""
        if self._testing is not None:
            self._testing.cancel()
            await asyncio.wait({self._testing})
        await all_done(*(prepared.container.close() for prepared in self._used))
        await self._drop_next()

    async def _drop_next(self) -> None:
        following = self._next
        self._next = None
        if following is None:
            return
        following.cancel()
        with suppress(SandboxError, asyncio.CancelledError):
            await self._drop(await following)

    async def _take(self) -> _Prepared:
        async with self._taking:
            while True:
                self._prepare()
                following = self._next
                if following is None:
                    raise SandboxUnavailable("the sandbox is closed", "start codeagent again")
                try:
                    prepared = await asyncio.shield(following)
                finally:
                    self._next = None if following.done() else self._next
                fits = False
                try:
                    fits = prepared.beside == await self._session.id()
                finally:
                    if not fits:
                        await run_to_end(self._drop(prepared))
                if fits:
                    return prepared

    async def _prepared(self) -> _Prepared:
        beside = await self._session.id()
        view = View(beside, await self._scratch(beside), layered=not self.read_only)
        spec = replace(self._spec, access=view, per_command=False)
        prepared = _Prepared(self._make(spec), beside)
        try:
            await prepared.container.start()
        except BaseException:
            await run_to_end(self._drop(prepared))
            raise
        return prepared

    async def _scratch(self, beside: str) -> tuple[str, str]:
        """Return the volumes that a view shares, see `View.scratch`. Raises SandboxUnavailable."""
        engine = self._resources.opened()[1]
        volumes = await in_thread(partial(engine.volumes_of, beside))
        if not volumes.keys() >= {"/tmp", HOME}:
            raise SandboxUnavailable(
                "this engine cannot share /tmp between containers", "use Docker"
            )
        return ("", "") if self._spec.per_command else (volumes["/tmp"], volumes[HOME])

    async def _tested(self) -> str:
        """Find out which kind of view is possible; return what is wrong if neither is."""
        if not (why := await self._layered()):
            self._cleaning = started(in_thread(partial(remove_spent, self._spec, self._resources)))
            return ""
        await self._drop_next()
        self.read_only = why
        try:
            result = (await self.run(Command("true", ""), _ignore)).result
        except (OSError, SandboxError):
            return why
        return "" if result.exit_code == 0 else why

    async def _layered(self) -> str:
        """Try out a command that makes a file; return what was wrong, empty if nothing was."""
        name = f"{CHECK}{secrets.token_hex(8)}"
        try:
            trial = await self.run(Command(f"echo > {name}", ""), _ignore)
        except (OSError, SandboxError) as error:
            return str(error)
        try:
            effects = await trial.effects()
            found = [effect.path for effect in effects if effect.after is not None]
            root, _ = self._resources.opened()
            if found != [name] or effects[0].before is not None:
                return "what is written in a view does not arrive in its layer alone"
            if root.find(name) is not None:
                return "what is written in a view changes the workspace"
            return ""
        except (OSError, SandboxError) as error:
            return f"what is written in a view cannot be read: {error}"
        finally:
            await trial.close()

    async def _drop(self, prepared: _Prepared) -> None:
        await prepared.container.close()
        for layer in prepared.container.layers:
            await in_thread(partial(remove_layer, layer))


async def _ignore(stream: object, data: bytes) -> None: ...


def remove_spent(spec: SandboxSpec, resources: SessionResources) -> None:
    """Remove what is left of layers and belongs to the engine, in a container that sees nothing
    else. Blocks; raises SandboxError."""
    folder = spent(spec.state_dir)
    names = [*folder.glob("*")][:_MOST_SPENT]
    if not names or (image := resources.image) is None:
        return
    _, engine = resources.opened()
    own = ContainerSpec(
        image=image.reference,
        root="/",
        uid=KEEPER,
        gid=KEEPER,
        binds=(*image.binds, Bind(str(folder), str(folder), read_only=False)),
        path=image.path,
        limits=spec.limits,
    )
    arguments = create_arguments(own, labels(spec.session, "spent-layers", str(spec.root)))
    arguments |= {"User": "0:0", "Cmd": ["rm", "-rf", *map(str, names)]}
    arguments["HostConfig"]["CapAdd"] = ["DAC_OVERRIDE"]
    with resources.creating() as unwanted:
        container_id, stdin = engine.run(arguments, unwanted)
    stdin.close()
    engine.call("POST", f"/containers/{container_id}/wait", fine=(404,))
