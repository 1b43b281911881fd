"""The tool `open_pull_request`: opens a pull request with the user's own `gh`, with approval."""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping
from typing import Annotated

from codeagent.agent.parts import Host
from codeagent.config.local_environment import agrees_to, config_dir
from codeagent.core.changes import CommitRefused
from codeagent.core.deferred import Field
from codeagent.core.display import TerminalBlock, TextBlock
from codeagent.core.host_programs import GITHUB, NOWHERE, finish_program, minimal
from codeagent.core.policy import ApprovalKey
from codeagent.core.ports import Workspace
from codeagent.core.programs import find_program
from codeagent.core.sanitize import visible
from codeagent.core.text_files import shown
from codeagent.core.tool import (
    BaseChanged,
    Failed,
    Preview,
    Tool,
    ToolArgs,
    ToolContext,
    ToolResult,
    Unavailable,
)
from codeagent.tools.arguments import written

_SECONDS = 120.0
_LONGEST = 60_000
_MOST_SAID = 2000
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REMOTE = re.compile(
    rf"(?:(?:https|ssh)://(?:[\w.-]+@)?|[\w.-]+@)({_NAME})(?::\d+)?[/:]({_NAME})/({_NAME}?)(?:\.git)?/?"
)
"""The host, the owner and the name in the address of a remote."""
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
_VARIABLES = (
    *("GH_TOKEN", "GITHUB_TOKEN"),
    *("GH_CONFIG_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"),
    *("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
_OF_ENTERPRISE = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_HOST")
"""gh sends these tokens to any host but its own, so they are for the one that the user named, not
the repository."""
_PRINT = "give the user title and description in your answer"


class PullRequestArgs(ToolArgs):
    message: Annotated[str, Field(max_length=_LONGEST), written("message")]
    base: Annotated[str, Field(max_length=200)] = ""
    draft: bool = False


class OpenPullRequest(Tool[PullRequestArgs]):
    """Runs `gh` away from the repository and names repository and branch, so that neither `gh` nor
    git reads or runs anything of it."""

    name = "open_pull_request"
    label = "Pull request"
    description = (
        "Open a pull request of the checked-out branch, which the user has pushed. message: title, "
        "blank line, description in Markdown. The user sees the command first."
    )
    Args = PullRequestArgs
    permission = "prompt"
    effect = "anything"
    may_write = False

    def __init__(self, workspace: Workspace, environment: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environment = environment

    def approval_key(self, args: PullRequestArgs) -> ApprovalKey:
        return ApprovalKey(kind="text", parts=(args.message,), opaque=True)

    def target(self, args: PullRequestArgs) -> str:
        return shown(args.message.strip().splitlines()[0])

    async def preview(self, args: PullRequestArgs, ctx: ToolContext) -> Preview:
        argv, body = await asyncio.to_thread(self._command, args)
        command = shlex.join(argv)
        blocks = (TerminalBlock(command=command), TextBlock(text=shown(body)))
        return Preview(self.target(args), blocks, base=f"{command}\n{body}")

    async def run(self, args: PullRequestArgs, ctx: ToolContext) -> ToolResult:
        argv, body = await asyncio.to_thread(self._command, args)
        if ctx.base not in (None, f"{shlex.join(argv)}\n{body}"):
            raise BaseChanged
        try:
            done = await finish_program(
                GITHUB,
                argv,
                folder=NOWHERE,
                environment=self._variables(argv) | {"GH_PROMPT_DISABLED": "1", "NO_COLOR": "1"},
                seconds=_SECONDS,
                data=body.encode(),
            )
        except (OSError, TimeoutError) as error:
            raise Failed(f"gh did not end ({type(error).__name__}); {_PRINT}") from error
        said = visible((done.stdout or done.stderr).decode("utf-8", "replace").strip())
        if done.returncode:
            hint = f"if the branch is not pushed, the user runs git push; else {_PRINT}"
            raise Failed(f"gh refused: {said[-_MOST_SAID:]}\n{hint}")
        return ToolResult.from_text(f"Opened: {said[-_MOST_SAID:]}")

    def _variables(self, argv: list[str]) -> dict[str, str]:
        host = argv[argv.index("--repo") + 1].partition("/")[0]
        named = self._environment.get("GH_HOST", "").lower() == host.lower()
        names = (*_VARIABLES, *(_OF_ENTERPRISE if named else ()))
        return minimal(self._environment, *names, outside=self._workspace.root)

    def _command(self, args: PullRequestArgs) -> tuple[list[str], str]:
        """Return what would run, and its standard input. Raises Unavailable without gh, Failed if
        the repository does not say where it is."""
        from codeagent.workspace.repository import open_repository  # it loads GitPython

        root = self._workspace.root
        gh, git = find_program("gh", root), find_program("git", root)
        if gh is None or git is None:
            missing = "git" if git is None else "gh"
            raise Unavailable(f"{missing} is not installed outside the workspace; {_PRINT}")
        try:
            repository = open_repository(
                git, root, self._environment, lambda found: agrees_to(found, root, config_dir())
            )
        except CommitRefused as error:
            raise Failed(f"{error}; {_PRINT}") from error
        remote = repository.value(f"branch.{repository.branch}.remote") or "origin"
        found = _REMOTE.fullmatch(repository.value(f"remote.{remote}.url"))
        names = (repository.branch, args.base or "main")
        wrong = next((name for name in names if _BRANCH.fullmatch(name) is None), "")
        if found is None or wrong:
            what = f"{shown(wrong)} as a branch" if wrong else f"the address of {shown(remote)}"
            raise Failed(f"{what} cannot be used with gh; {_PRINT}")
        title, _, body = args.message.strip().partition("\n")
        where = ("--repo", "/".join(found.groups()), "--head", repository.branch)
        options = [*(("--base", args.base) if args.base else ()), *(["--draft"] * args.draft)]
        words = ("--title", title.strip(), "--body-file", "-")
        return [gh, "pr", "create", *where, *options, *words], body.strip() + "\n"


def for_step(host: Host) -> OpenPullRequest:
    return OpenPullRequest(host.context.workspace, os.environ)
