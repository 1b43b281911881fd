"""Mirrors of repositories, and the working copies and patches of tasks: all that a batch does with
git."""

import asyncio
import errno
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

from codeagent.core.changes import Change
from codeagent.core.checkpoints import Node, NodeKind
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.host_programs import HostProgram, finish_program, minimal, run_program
from codeagent.core.programs import find_program
from codeagent.core.sanitize import one_line
from codeagent.disk.locks import open_lock_file, try_lock, unlock
from codeagent.disk.opens import closing_fd, open_folder
from codeagent.disk.private import make_private_folder
from codeagent.disk.repository import isolated_environment
from codeagent.disk.trees import remove_tree
from codeagent.extensions.batch.tasks import LOGIN

CLONING = HostProgram("git for batches", None)
_SECONDS = 1800.0
"""The time limit of each git command, in seconds."""
_LARGEST = 100 << 20
"""A patch leaves out files with more bytes than this."""
_SAFE = {
    "protocol.ext.allow": "never",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "gc.auto": "0",
}
"""Git settings that no repository and no configuration file can override."""

_KINDS: Mapping[str, NodeKind] = {
    "100644": "file",
    "100755": "executable",
    "120000": "link",
    "160000": "link",
}
"""The kinds of git's file modes; a submodule is treated like a link."""

_LOGS_IN = r"""!printf 'username=%s\npassword=%s\n' "$BATCH_USER" "$BATCH_PASSWORD"; :"""
"""A credential helper: git runs it to get the password of an address."""


@asynccontextmanager
async def alone(path: Path, seconds: float) -> AsyncIterator[int]:
    """Hold the lock at `path` and yield its file descriptor. Raises OSError; TimeoutError if another
    process holds the lock for so many seconds."""
    make_private_folder(path.parent)
    with closing_fd(open_lock_file(path)) as fd:
        try:
            async with asyncio.timeout(seconds):
                while not try_lock(fd):  # noqa: ASYNC110  # nothing tells when another process unlocks
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock") from None
        try:
            yield fd
        finally:
            unlock(fd)  # a program that git left running may still have the file open


def discard(path: Path) -> None:
    """Remove a file or a folder, whatever the modes of its folders; it may be missing."""
    with suppress(OSError), closing_fd(open_folder(path.parent)) as folder:
        try:
            os.unlink(path.name, dir_fd=folder)
        except IsADirectoryError:
            remove_tree(path.name, folder)


@dataclass(frozen=True)
class Mirror:
    """A bare clone of a repository, with all its branches and tags."""

    folder: Path
    held: tuple[int, ...] = ()
    """Locks that git inherits: after its parent is killed, git holds them until it ends."""

    @classmethod
    def of(cls, repository: str, folder: Path) -> "Mirror":
        """Return the mirror of a repository, made or not, in a folder of mirrors; its password does not
        matter."""
        address = LOGIN.sub("", repository)
        return cls(folder / f"{sha256(address.encode()).hexdigest()[:24]}.git")

    async def update(self, repository: str) -> None:
        """Make the mirror, or fetch what is new; a cancellation ends git. Raises ConfigError with
        git's message."""
        try:
            async with alone(self.folder.with_suffix(".lock"), _SECONDS) as lock:
                await self._updated(repository, lock)
        except (ConfigError, OSError) as error:
            said = getattr(error, "strerror", None) or error
            raise ConfigError(f"the mirror of {LOGIN.sub('', repository)}: {said}") from error

    async def _updated(self, repository: str, lock: int) -> None:
        if not self.folder.exists():
            discard(new := self.folder.with_suffix(".new"))
            words = ["clone", "--quiet", "--mirror", "--no-local", "--", repository, str(new)]
            try:
                await _with_user(words, self.folder.parent, lock)
                new.rename(self.folder)
            finally:
                discard(new)
            return
        for pattern in ("**/*.lock", "packed-refs.new", "objects/**/tmp_*"):
            for left in self.folder.glob(pattern):
                left.unlink(missing_ok=True)  # a killed git left it
        words = ["fetch", "--quiet", "--prune", "--no-auto-gc", "--", repository, "+refs/*:refs/*"]
        await _with_user(words, self.folder, lock)
        said = await _with_user(["ls-remote", "--", repository, "HEAD"], self.folder, lock)
        if head := said.decode().partition("\t")[0]:
            await _with_user(["update-ref", "--no-deref", "HEAD", head], self.folder, lock)

    def commit(self, name: str) -> str:
        """Return the full hash of a commit, branch or tag. Raises ConfigError."""
        words = ("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        try:
            return self._git(*words).decode().strip()
        except ConfigError as error:
            raise ConfigError(f"the repository has no commit, branch or tag {name}") from error

    def check_out(self, commit: str, folder: Path) -> None:
        """Make a working copy with its own repository. Raises ConfigError.

        It shares no files with the mirror, as a task could change them.
        """
        clone = ("clone", "--quiet", "--no-hardlinks", "--no-checkout", "--template=")
        self._git(*clone, ".", str(folder))
        for words in (("remote", "remove", "origin"), ("checkout", "--quiet", "--detach", commit)):
            _isolated(words, folder, {"GIT_DIR": str(folder / ".git")}, held=self.held)

    def patch(self, commit: str, folder: Path, to: Path) -> str:
        """Write the patch from a commit to a working copy: new files are included, ignored ones are
        not. Return a phrase that names the files left out, empty if there are none. Raises
        ConfigError, OSError.

        It ignores the working copy's own repository and treats repositories inside as plain
        folders, whose `.git` it removes: use the working copy for nothing else afterwards.
        """
        discard(own := to.with_suffix(".git"))
        (own / "objects").mkdir(parents=True)
        there = {
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(own / "index"),
            "GIT_OBJECT_DIRECTORY": str(own / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.folder / "objects"),
        }

        def git(*words: str, data: bytes = b"") -> bytes:
            return _isolated(words, folder, there, data, self.held)

        try:
            git("read-tree", commit)
            large = [f":(literal){name}" for name in _opened_up(folder)[:1000]]
            words = ["ls-files", "-z", "--others", "--modified", "--exclude-standard", "--"]
            left = git(*words, *large).split(b"\0")[:-1] if large else []
            without = b"".join(b"\0:(exclude,literal)" + name for name in left)
            words = ["add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"]
            git(*words, data=b"." + without)
            words = ["diff", "--cached", "--binary", "--full-index", "--no-ext-diff"]
            git(*words, f"--output={to}", commit)
        finally:
            discard(own)
        names = one_line(b" ".join(left).decode("utf-8", "replace"), 300)
        return names and f"the patch leaves out what is larger than {_LARGEST >> 20} MB: {names}"

    def changes(self, commit: str, patch: Path) -> list[Change[Node]]:
        """Return the changes that a patch makes to a commit, one per file. Raises ConfigError,
        OSError."""
        with tempfile.TemporaryDirectory(prefix="codeagent-patch-") as own:
            (objects := Path(own, "objects")).mkdir()
            there = {
                "GIT_DIR": str(self.folder),
                "GIT_INDEX_FILE": str(Path(own, "index")),
                "GIT_OBJECT_DIRECTORY": str(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.folder / "objects"),
            }

            def git(*words: str) -> bytes:
                return _isolated(words, self.folder, there)

            def node(mode: str, blob: str) -> Node | None:
                if (kind := _KINDS.get(mode)) is None:
                    return None
                submodule = mode == "160000"
                return Node(kind, blob.encode() if submodule else git("cat-file", "blob", blob))

            git("read-tree", commit)
            git("apply", "--cached", "--whitespace=nowarn", str(patch.absolute()))
            words = ("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames")
            found = git(*words, commit).split(b"\0")[:-1]
            changes = list[Change[Node]]()
            for said, path in zip(found[::2], found[1::2], strict=True):
                before, after, old, new, _ = said.decode().removeprefix(":").split()
                name = os.fsdecode(path)
                changes.append(Change(name, node(before, old), node(after, new)))
            return changes

    def _git(self, *words: str) -> bytes:
        return _isolated(words, self.folder, {"GIT_DIR": str(self.folder)}, held=self.held)


def merged_text(mine: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Merge the changes of both sides since `base`; return None if git cannot. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="codeagent-merge-") as own:
        for name, data in (("mine", mine), ("base", base), ("theirs", theirs)):
            Path(own, name).write_bytes(data)
        try:
            return _isolated(["merge-file", "-p", "mine", "base", "theirs"], Path(own), {})
        except ConfigError:
            return None


def _opened_up(folder: Path) -> list[str]:
    """Make all of a working copy readable for git, including repositories inside; return the files
    that are too large for a patch."""
    large = []
    for path, folders, files in os.walk(folder):
        for mode, names in ((0o700, folders), (0o400, files)):
            for each in (Path(path, name) for name in names):
                if each.name.lower() == ".git" and each != folder / ".git":
                    discard(each)
                    continue
                status = each.lstat()
                if not each.is_symlink() and status.st_mode & mode != mode:
                    with suppress(OSError):  # git reports it
                        each.chmod(status.st_mode | mode)
                if names is files and status.st_size > _LARGEST:
                    large.append(str(each.relative_to(folder)))
        folders[:] = [name for name in folders if name.lower() != ".git"]
    return large


def changed_lines(patch: Iterable[bytes]) -> tuple[int, int, int]:
    """Return how many files a patch changes, and how many lines it adds and removes."""
    files = added = removed = 0
    within = False
    for line in patch:
        if line.startswith(b"diff --git "):
            files += 1
        within = (within and not line.startswith(b"diff --git ")) or line.startswith(b"@@ ")
        added += within and line.startswith(b"+")
        removed += within and line.startswith(b"-")
    return files, added, removed


async def _with_user(words: Sequence[str], folder: Path, lock: int) -> bytes:
    """Run git with the user's own configuration and keys, which an address may need, and return its
    output. Raises ConfigError.

    A password in the address is sent only to its server, and never passed as an argument.
    """
    own = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    options = list[str]()
    for address in filter(LOGIN.search, words):
        user, password = map(unquote, LOGIN.findall(address)[0])
        own |= {"BATCH_USER": user, "BATCH_PASSWORD": password}
        server = "/".join(LOGIN.sub("", address).split("/", 3)[:3])
        options = ["-c", "credential.helper=", "-c", f"credential.{server}.helper={_LOGS_IN}"]
    bare = [LOGIN.sub("", word) for word in words]
    more = ("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "XDG_CONFIG_HOME", "http_proxy", "https_proxy")
    try:
        done = await finish_program(
            CLONING,
            _command([*options, *bare], folder),
            folder=folder,
            environment=own | minimal(os.environ, *more),
            seconds=_SECONDS,
            pass_fds=(lock,),
        )
    except TimeoutError:
        raise ConfigError(f"git {words[0]} took longer than {_SECONDS:g} seconds") from None
    return _output(words, done)


def _isolated(
    words: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    data: bytes = b"",
    held: tuple[int, ...] = (),
) -> bytes:
    """Run git without the configuration of the user or the system, and return its output; it inherits
    the files `held`. Raises ConfigError."""
    try:
        ran = run_program(
            CLONING,
            _command(words, folder),
            folder=folder,
            environment={**isolated_environment(folder), **variables},
            seconds=_SECONDS,
            data=data,
            start_new_session=True,
            pass_fds=held,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"git {words[0]}: {error}") from error
    return _output(words, ran)


def _command(words: Sequence[str], folder: Path) -> list[str | Path]:
    program = find_program("git", folder)
    if program is None:
        raise ConfigError("git is not installed; nothing was run")
    safe = [word for name, value in _SAFE.items() for word in ("-c", f"{name}={value}")]
    return [program, *safe, *words]


def _output(words: Sequence[str], done: subprocess.CompletedProcess[bytes]) -> bytes:
    """Return the output of git. Raises ConfigError with its message if it failed."""
    if done.returncode:
        said = one_line(done.stderr.decode("utf-8", "replace"), 300) or f"exit {done.returncode}"
        raise ConfigError(f"git {words[0]}: {said}")
    return done.stdout
