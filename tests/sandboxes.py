"""Workspaces and sandboxes that tests run commands in."""

import asyncio
import shlex
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from codeagent.core.messages import OutputStream
from codeagent.core.sandbox import Command, CommandResult, Sandbox
from codeagent.disk.repository import OutsideGit, repository_of
from codeagent.sandbox import container
from codeagent.sandbox.described_image import ImagePlan
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.egress.internet import Internet
from codeagent.sandbox.exec import CallMark
from codeagent.sandbox.spec import SandboxLimits, SandboxSpec, UserPython
from tests.copies import copied

MIB = 1024**2
_WORD = "fedcba9876543210"
FORGED_END = f"printf '\\0{_WORD} \\n'; printf '\\0{_WORD} 0 0 0\\n' >&2"
"""In a command: says in its wrapper's words, after `tell_the_word`, that it has ended and that
nothing is left."""


def tell_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands know the word of their wrapper's reports: it is in its memory, which they may be
    able to read."""
    monkeypatch.setattr(container, "CallMark", lambda _, number: CallMark(_WORD, number))


def make_repository(path: Path) -> Path:
    """A small git repository with one commit."""
    return copied(_repository, path)


def _repository(path: Path) -> None:
    (path / "hello.py").write_text("def hello():\n    return 'hello'\n")
    (path / "test_hello.py").write_text(
        "import unittest\nfrom hello import hello\n\n\nclass TestHello(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertEqual(hello(), 'hello')\n"
    )
    git = ["git", "-C", str(path), "-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)


def make_worktree(repository: Path) -> Path:
    """A linked worktree beside the repository it belongs to."""
    _git(repository, "worktree", "add", "-q", "../linked")
    return repository.parent / "linked"


def make_submodule(repository: Path) -> Path:
    """A submodule in the repository."""
    make_repository(repository.parent / "other")
    _git(repository, "submodule", "add", "-q", "../other", "inner")
    return repository / "inner"


def outside(root: Path) -> OutsideGit | None:
    """The git directory that a pointer out of the workspace leads to."""
    repository = repository_of(root)
    return None if repository is None else repository.outside


def _git(folder: Path, *arguments: str) -> None:
    who = (
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.org",
        "-c",
        "protocol.file.allow=always",
    )
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def sandbox_spec(root: Path, state_dir: Path, **given: object) -> SandboxSpec:
    """This machine's toolchain, so that nothing is pulled; `given` replaces fields of SandboxSpec
    and of its parts, by name."""
    values: dict[str, Any] = {
        "session": "test",
        "home": state_dir.parent / "home-of-nobody",
        "pull": False,
        "memory_bytes": 512 * MIB,
        "tmp_bytes": 64 * MIB,
    } | given

    def part(kind: type[Any]) -> Any:
        names = values.keys() & {field.name for field in fields(kind)}
        return kind(**{name: values.pop(name) for name in names})

    return SandboxSpec(
        root=root,
        state_dir=state_dir,
        image=part(ImagePlan),
        limits=part(SandboxLimits),
        python=part(UserPython),
        **values,
    )


@asynccontextmanager
async def opened(
    root: Path, state_dir: Path, internet: Internet | None = None, **given: object
) -> AsyncIterator[DockerSandbox]:
    """A sandbox whose containers are made when they are needed, closed afterwards in the event loop
    that used it.

    `given` as in `sandbox_spec`.
    """
    sandbox = DockerSandbox(
        sandbox_spec(root, state_dir, **given), None if internet is None else lambda: internet
    )
    try:
        yield sandbox
    finally:
        await sandbox.close()


@dataclass
class Ran:
    """A command's result and all it printed; `stdout` has both streams if they are not told
    apart."""

    stdout: bytes = b""
    stderr: bytes = b""
    pieces: list[tuple[str, bytes]] = field(default_factory=list)
    result: CommandResult = field(default_factory=lambda: CommandResult(None))

    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, stream: OutputStream, data: bytes) -> None:
        self.pieces.append((stream, data))
        if stream == "stderr":
            self.stderr += data
        else:
            self.stdout += data
        self._news.set()

    async def printed(self, text: bytes) -> None:
        """Returns once `text` has come out."""
        async with asyncio.timeout(30):
            while text not in self.stdout:
                self._news.clear()
                await self._news.wait()


async def run(sandbox: Sandbox, text: str, *, apart: bool = True) -> Ran:
    """Run a command whose two streams are told apart, unless they are to keep their order."""
    ran = Ran()
    ran.result = await sandbox.run(Command(text, "call", apart=apart), ran)
    return ran


@dataclass(frozen=True)
class Part:
    """What one script of a batch printed, and how it ended."""

    stdout: bytes
    exit_code: int


def batch(scripts: Mapping[str, str]) -> str:
    """One command that runs every script in a shell of its own: a start in the container is paid
    once for all."""
    return "\n".join(
        f"printf '\\0%s\\0' {shlex.quote(name)}; bash -c {shlex.quote(script)} < /dev/null; printf '\\0%d\\0' $?"
        for name, script in scripts.items()
    )


def parts(ran: Ran, scripts: Mapping[str, str]) -> dict[str, Part]:
    """What became of each script of a batch. Raises AssertionError where one did not come to its
    end."""
    words = ran.stdout.split(b"\0")
    found = {
        name.decode(): Part(stdout, int(code))
        for name, stdout, code in zip(words[1::4], words[2::4], words[3::4], strict=True)
    }
    assert found.keys() == scripts.keys(), ran
    return found


async def processes(sandbox: DockerSandbox, line: str) -> int:
    """How many processes with that command line live in the usual container, by the engine's own
    list."""
    engine, target = await sandbox.entrance()
    listed = await engine.ask(
        "GET", f"/containers/{target.container_id}/top", {"ps_args": "-eo pid,args"}
    )
    return sum(found == line for *_, found in listed["Processes"])


async def processes_become(sandbox: DockerSandbox, line: str, number: int) -> None:
    """Return once so many processes with that command line live in the usual container."""
    found = None
    try:
        async with asyncio.timeout(30):
            while (found := await processes(sandbox, line)) != number:
                pass
    except TimeoutError:
        raise AssertionError(f"{found} processes are `{line}`, not {number}") from None
