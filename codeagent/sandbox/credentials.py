"""Asks Docker's credential helpers for the user's login at a registry; docker-py would look them up
in the workspace.

It is a module of its own because it starts a program, as its row in `core.host_programs` says.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from codeagent.core.host_programs import CREDENTIALS, NOWHERE, run_program
from codeagent.core.lazy_regex import lazy_regex
from codeagent.core.programs import find_program

_SECONDS = 60.0
"""A key store that is locked asks the user."""
_NAME = lazy_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UNKNOWN = "credentials not found in native keychain"


class CredentialHelpers(dict[str, "_Helper"]):
    """Stands in for docker-py's table of helpers by name; each is made when it is first asked
    for."""

    def __init__(self, workspace: Path, errors: Any) -> None:
        """`errors` is `docker.credentials.errors`, which docker-py expects a helper to raise."""
        super().__init__()
        self._workspace = workspace
        self._errors = errors

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> "_Helper":
        self[name] = _Helper(name, self._workspace, self._errors)
        return self[name]


class _Helper:
    """Has those methods of `docker.credentials.Store` that docker-py calls to pull and to build."""

    def __init__(self, name: str, workspace: Path, errors: Any) -> None:
        self._name = f"docker-credential-{name}"
        self._program = find_program(self._name, workspace) if _NAME.fullmatch(name) else None
        self._errors = errors

    def get(self, server: str) -> Any:
        found = self._ask("get", server)
        if not found["Username"] and not found["Secret"]:
            raise self._errors.CredentialsNotFound(f"{self._name} knows no login for {server}")
        return found

    def list(self) -> Any:
        return self._ask("list", "")

    def _ask(self, subcommand: str, data: str) -> Any:
        if self._program is None:
            raise self._errors.StoreError(f"{self._name} is not on PATH outside the workspace")
        words = [self._program, subcommand]
        try:
            done = run_program(
                CREDENTIALS,
                words,
                folder=NOWHERE,
                environment=os.environ,
                seconds=_SECONDS,
                data=data.encode(),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise self._errors.StoreError(
                f"{self._name} did not answer ({type(error).__name__})"
            ) from error
        said = done.stdout.decode(errors="replace")
        if done.returncode:
            kind = self._errors.CredentialsNotFound if _UNKNOWN in said else self._errors.StoreError
            raise kind(f"{self._name} refused: {said.strip()[:200]}")
        try:
            return json.loads(said)
        except ValueError as error:
            raise self._errors.StoreError(f"the answer of {self._name} is not JSON") from error
