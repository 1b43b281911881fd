"""MCP servers from the user's `mcp.json` and a project's `.mcp.json`, which counts only once it is
trusted."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from codeagent.config.kept import GrantFile, TrustFile
from codeagent.core.dataclass import dataclass
from codeagent.core.errors import ConfigError
from codeagent.core.toolbox import ToolProblem
from codeagent.disk.locks import locked
from codeagent.disk.opens import read_regular
from codeagent.disk.private import LARGEST, UnsafeFile, read_owned, replace_private
from codeagent.extensions.mcp import PROJECT_FILE, USER_FILE
from codeagent.extensions.mcp.entries import ServerList, decoded, parse_servers
from codeagent.extensions.mcp.entry import Origin, ServerEntry, in_workspace

_EXPOSED = "it lies in the workspace, where the agent could change it: its servers are not used"


@dataclass(frozen=True)
class ConfiguredServers:
    """The servers of both files; the user's come first, and the first of a name keeps it."""

    entries: tuple[ServerEntry, ...] = ()
    problems: tuple[ToolProblem, ...] = ()
    digest: str = ""
    """Of the project's file as it was read: what trust is given to."""

    @property
    def untrusted(self) -> tuple[ServerEntry, ...]:
        return tuple(entry for entry in self.entries if not entry.trusted)

    @property
    def project(self) -> tuple[ServerEntry, ...]:
        return tuple(entry for entry in self.entries if entry.place == "project")

    def get(self, name: str) -> ServerEntry:
        """Raises ConfigError, which names those there are."""
        for entry in self.entries:
            if entry.config.name == name:
                return entry
        known = ", ".join(entry.config.name for entry in self.entries) or "none"
        raise ConfigError(f"no MCP server is named {name[:80]!r}; configured: {known}")


class ServerFiles:
    """Both files, read again by every method; methods block on small files."""

    def __init__(self, config_dir: Path | None, workspace: Path, *, accept: bool = False) -> None:
        """`config_dir` None: there is no user's file, and nothing can be trusted. `accept`: the
        project's file is trusted as it is, without asking."""
        self._folder = config_dir
        self._workspace = workspace
        self._accept = accept

    @property
    def user_file(self) -> Path:
        """Raises ConfigError if there is no configuration folder."""
        if self._folder is None:
            raise ConfigError("without a configuration folder, no server can be kept")
        return self._folder / USER_FILE

    def read(self) -> ConfiguredServers:
        """Read what is configured; nothing is started, and nothing raises: what is wrong is a
        problem."""
        mine, (theirs, digest) = self._user_list(), self._project_list()
        problems = [*mine.problems, *theirs.problems]
        entries, taken = list(mine.entries), {entry.config.name for entry in mine.entries}
        trusted, given = False, frozenset[tuple[str, str]]()
        try:
            trusted = not theirs.entries or self._accept or self._book_trusts(digest)
            given = self._given(digest) if theirs.entries else given
        except ConfigError as error:
            problems.append(ToolProblem(PROJECT_FILE, str(error)))
        for entry in theirs.entries:
            if entry.config.name in taken:
                text = f"{entry.config.name} is also in your own {USER_FILE}, which is used"
                problems.append(ToolProblem(PROJECT_FILE, text, "warning"))
            else:
                name = entry.config.name
                variables = frozenset(variable for server, variable in given if server == name)
                entries.append(replace(entry, trusted=trusted, given=variables))
        return ConfiguredServers(tuple(entries), tuple(problems), digest)

    def trust(
        self, shown: str | None = None, give: Collection[tuple[str, str]] = ()
    ) -> tuple[ServerEntry, ...]:
        """Trust the project's file as it is now, in later sessions, too; return its servers.

        `shown`: the digest of what the user has seen. `give`: a server and a variable of the user's
        that it gets from now on, with those it was given before for the same file. Raises
        ConfigError, and changes nothing then, if the file is another one by now, or a server does
        not want what it would be given.
        """
        found, digest = self._seen(shown, "it was not trusted")
        self._check(found, give)
        if found.entries:
            self._grants().give(digest, give)
            self._record().trust(digest)
        return self.read().project

    def give(self, shown: str, give: Collection[tuple[str, str]]) -> None:
        """Give servers of the project variables as `trust` does, but trust nothing that is not
        trusted."""
        found, digest = self._seen(shown, "nothing was given")
        self._check(found, give)
        self._grants().give(digest, give)

    def distrust(self) -> None:
        """Raises ConfigError."""
        self._accept = False
        self._record().forget()
        self._grants().forget()

    def add(self, name: str, entry: Mapping[str, Any]) -> ServerEntry:
        """Add a server to the user's file; what else is in it stays. Raises ConfigError, and
        changes nothing then."""
        alone = parse_servers(
            json.dumps({"mcpServers": {name: entry}}).encode(), "the command line", "user"
        )
        if not alone.entries:
            problem = alone.problems[0]
            key = problem.where.rpartition(": ")[2].removeprefix(f"{name}.")
            raise ConfigError(f"{key}: {problem.text}; nothing was added")

        def put(servers: dict[str, Any]) -> None:
            if name in servers:
                raise ConfigError(
                    f"{name} is already in {self.user_file}; codeagent mcp remove {name} removes it first"
                )
            servers[name] = dict(entry)

        self._change(put, "nothing was added")
        return alone.entries[0]

    def remove(self, name: str) -> None:
        """Remove a server from the user's file. Raises ConfigError, and changes nothing then."""

        def take_out(servers: dict[str, Any]) -> None:
            if name not in servers:
                theirs = any(entry.config.name == name for entry in self._project_list()[0].entries)
                hint = f"; it is in the project's {PROJECT_FILE}" if theirs else ""
                raise ConfigError(
                    f"{name[:80]!r} is not in {self.user_file}{hint}; nothing was removed"
                )
            del servers[name]

        self._change(take_out, "nothing was removed")

    def _change(self, change: Callable[[dict[str, Any]], None], outcome: str) -> None:
        """Replace the user's file by what `change` makes of its servers; a link stays, and what it
        leads to changes."""
        file = self.user_file
        if self._is_exposed:
            raise ConfigError(
                f"{file.parent} lies in the workspace, where the agent could change it; {outcome}"
            )
        try:
            with locked(file.with_suffix(".lock")):
                try:
                    data = decoded(read_owned(file) or b"", str(file))[1]
                except (UnsafeFile, ConfigError) as error:
                    raise ConfigError(f"{error}; {outcome}: repair the file") from error
                servers = data.setdefault("mcpServers", {})
                if not isinstance(servers, dict):
                    raise ConfigError(
                        f"{file}: mcpServers is not an object; {outcome}: repair the file"
                    )
                change(servers)
                replace_private(
                    file.resolve(), (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()
                )
        except OSError as error:
            raise ConfigError(f"{file} cannot be changed ({error.strerror}); {outcome}") from error

    @property
    def _is_exposed(self) -> bool:
        folder = self._folder
        return folder is not None and folder.resolve().is_relative_to(self._workspace.resolve())

    def _user_list(self) -> ServerList:
        if self._folder is None:
            return ServerList()
        file = self._folder / USER_FILE
        try:
            raw = read_owned(file)
        except UnsafeFile as error:
            why = str(error).removeprefix(f"{file} ")
            return ServerList(
                problems=(ToolProblem(str(file), f"{why}; its servers are not used"),)
            )
        if raw is not None and self._is_exposed:
            return ServerList(problems=(ToolProblem(str(file), _EXPOSED),))
        return ServerList() if raw is None else self._parsed(raw, str(file), "user")

    def _project_list(self) -> tuple[ServerList, str]:
        """Return the project's servers, and the digest that stands for its file in the record of
        trust."""
        try:
            raw = read_regular(self._workspace / PROJECT_FILE, largest=LARGEST)
        except FileNotFoundError:
            return ServerList(), ""
        except OSError as error:
            problem = ToolProblem(
                PROJECT_FILE, f"it cannot be read ({error.strerror}); its servers are not used"
            )
            return ServerList(problems=(problem,)), ""
        return self._parsed(raw, PROJECT_FILE, "project"), hashlib.sha256(raw).hexdigest()

    def _parsed(self, raw: bytes, shown: str, place: Origin) -> ServerList:
        found = parse_servers(raw, shown, place)
        return replace(
            found, entries=tuple(in_workspace(entry, self._workspace) for entry in found.entries)
        )

    def _record(self) -> TrustFile:
        if self._folder is None:
            raise ConfigError("trust cannot be stored here, so no server of the project is used")
        return TrustFile(self._folder, self._workspace, Path.home(), "mcp-trust.jsonl")

    def _book_trusts(self, digest: str) -> bool:
        return self._folder is not None and self._record().trusts(digest)

    def _seen(self, shown: str | None, outcome: str) -> tuple[ServerList, str]:
        """Return the project's servers and digest. Raises ConfigError if the user was shown another
        file."""
        found, digest = self._project_list()
        if shown is not None and shown != digest:
            raise ConfigError(
                f"{PROJECT_FILE} has changed since it was shown, so {outcome}; look at it again"
            )
        return found, digest

    def _check(self, found: ServerList, give: Collection[tuple[str, str]]) -> None:
        """Raises ConfigError if a server that is used does not want what it would be given."""
        taken = {entry.config.name for entry in self._user_list().entries}
        wants = {
            entry.config.name: entry.wants
            for entry in found.entries
            if entry.config.name not in taken
        }
        for server, variable in give:
            if server not in wants:
                known = ", ".join(wants) or "none"
                raise ConfigError(
                    f"no server of this project is named {server[:80]!r}; there are: {known}"
                )
            if variable not in (names := [one.name for one in wants[server]]):
                what = ", ".join(names) or "none"
                raise ConfigError(
                    f"{server} does not want {variable[:80]}; it wants {what}; nothing was given"
                )

    def _grants(self) -> GrantFile:
        if self._folder is None:
            raise ConfigError(
                "what is given cannot be stored here, so no server of the project gets a variable"
            )
        return GrantFile(self._folder, self._workspace, Path.home())

    def _given(self, digest: str) -> frozenset[tuple[str, str]]:
        """Return each server with a variable that it may have. Raises ConfigError if the record is
        damaged."""
        return frozenset() if self._folder is None else self._grants().given(digest)
