"""The ports that a user is shown, because something in the sandbox began to listen on them."""

import asyncio

import pytest

from codeagent.core.sandbox import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.exec import ports_in
from tests.sandboxes import Ran, run
from tests.table import for_each

SERVER = (
    "import socket, sys, time\n"
    "s = socket.create_server(('127.0.0.1', 8123)); t = socket.create_server(('::1', 8124), family=socket.AF_INET6)\n"
    "print('ready', flush=True); time.sleep(600)"
)


def test_an_answer_that_was_cut_short_names_no_port() -> None:
    assert ports_in(b"1F90\n0050\ndone\n") == {8080, 80}
    assert ports_in(b"1F90\n0050\n") == frozenset()


@for_each("answer", [b"", b"x\ndone\n", b"FFFFF\ndone\n", b"-1\ndone\n", b"\xff\ndone\n"])
def test_an_answer_that_no_kernel_gives_names_no_port(answer: bytes) -> None:
    assert ports_in(answer) == frozenset()


@pytest.mark.docker
async def test_ports_are_known_while_they_are_listened_on(sandbox: DockerSandbox) -> None:
    for read_only in (False, True):
        assert await sandbox.listening() == frozenset()
        ran = Ran()
        task = asyncio.create_task(
            sandbox.run(Command(f'python3 -c "{SERVER}"', "call", read_only), ran)
        )
        await ran.printed(b"ready")
        assert await sandbox.listening() == {8123, 8124}, f"{read_only=}"
        task.cancel()
        await task
    await run(sandbox, "setsid sleep 100 & true")
    await sandbox.close()
    assert await sandbox.listening() == frozenset(), "a closed sandbox listens on nothing"
