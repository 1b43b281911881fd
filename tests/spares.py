"""What tests of the warm spare look at: the container's processes, and the spare that waits among
them."""

import asyncio

from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.freeze import living
from codeagent.sandbox.guard import Container
from codeagent.sandbox.spare import Spare
from tests.needs import give_up


def container(box: DockerSandbox) -> Container:
    found = box._default._container
    assert found is not None
    return found


def inside(box: DockerSandbox) -> frozenset[int]:
    return living(container(box).processes)


def need_process_list(box: DockerSandbox) -> None:
    """Give the test up where there can be no spare."""
    if container(box).processes is None:
        give_up("this machine does not show a container's processes, so there are no spares")


async def alone(box: DockerSandbox) -> None:
    """Wait until the sandbox has seen that nothing runs in its container."""
    async with asyncio.timeout(30):
        while not await box._default.is_quiet():  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)


async def waiting(box: DockerSandbox) -> Spare:
    """The spare, once it waits."""
    await alone(box)
    spare = box._default._spare
    assert spare is not None
    assert await asyncio.shield(spare._starting) is not None
    return spare
