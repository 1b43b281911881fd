"""`codeagent doctor`: shows what works here, what is missing, and what to do about it."""

import argparse
import asyncio
import os
import platform
import shlex
import subprocess
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent import __version__
from codeagent.changes.diff import count
from codeagent.commands.arguments import (
    add_cwd,
    add_flag,
    print_json,
    say,
    settings_of,
    workspace_of,
)
from codeagent.config.extensions import Extensions, all_extensions
from codeagent.config.keys import KeyStore
from codeagent.config.layers import ENVIRONMENT, parse_rules
from codeagent.config.local_environment import (
    PROJECT_FILE,
    LocalEnvironment,
    active_environment,
    config_dir,
    state_dir,
    user_config_file,
)
from codeagent.config.settings import Settings
from codeagent.console.table import Column, print_table
from codeagent.core.errors import CodeagentError, ConfigError, SandboxError, SessionError
from codeagent.core.extension import Finding, FindingState, resolved
from codeagent.core.host_programs import NOWHERE, VERSION, run_program
from codeagent.core.messages import OutputStream
from codeagent.core.programs import find_program, needed_version, this_system
from codeagent.core.redact import Redactor, is_secret_name
from codeagent.core.sandbox import Command, Sandbox
from codeagent.core.sanitize import one_line
from codeagent.llm.catalog import is_scripted
from codeagent.llm.factory import LANES, lane
from codeagent.sandbox.engine import local_engine, runtime_warning
from codeagent.sandbox.image import HOST_TOOLCHAIN, WITH_PACKAGES
from codeagent.session.store import SessionStore
from codeagent.tools.ripgrep import find_ripgrep
from codeagent.workspace.needs import Need, needs_of

if TYPE_CHECKING:
    from codeagent.commands.ports import App

_MARKS: dict[FindingState, str] = {"ok": "✓", "note": "–", "problem": "✗"}
_COLUMNS = (Column(), Column(style="bold"), Column())
_GIT_FIXED = (
    (2, 43, 7),
    (2, 44, 4),
    (2, 45, 4),
    (2, 46, 4),
    (2, 47, 3),
    (2, 48, 2),
    (2, 49, 1),
    (2, 50, 1),
)
"""The first version of each release line of git with the fix for CVE-2025-48384."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, "--json", "as one JSON object")
    add_cwd(parser)


def main(args: argparse.Namespace, app: "App") -> Coroutine[Any, Any, int]:
    return _doctor(args, app)


async def _doctor(args: argparse.Namespace, app: "App") -> int:
    workspace = workspace_of(args.cwd)
    local = LocalEnvironment(workspace, state_dir(), dict(os.environ), config_dir=config_dir())
    findings = [
        Finding(
            "codeagent", "ok", f"{__version__}, Python {platform.python_version()}, {this_system()}"
        )
    ]
    settings, found = _configuration(args, workspace)
    findings += found
    findings += _rules(settings, local, app)
    findings += _model(settings, local.environment)
    findings.append(_state(local))
    findings += _git(_program("git", find_program("git", workspace), "apt-get install git", "note"))
    findings.append(
        _program("ripgrep", find_ripgrep(workspace), "install codeagent again", "problem")
    )
    findings += await asyncio.to_thread(_engine, local.environment)
    sandbox = await _sandbox(settings, local, app)
    extensions = all_extensions().without(settings.extensions.off)
    installed = any(one.name == "image" and WITH_PACKAGES in one.text for one in sandbox)
    findings += [
        *([] if installed else python_packages(local)),
        *await asyncio.to_thread(list, of_extensions(extensions, workspace)),
        *sandbox,
    ]
    broken = [finding for finding in findings if finding.state == "problem"]
    if args.json:
        print_json({"usable": not broken, "findings": [asdict(finding) for finding in findings]})
    else:
        print_table(
            _COLUMNS,
            [(_MARKS[item.state], item.name, item.text) for item in findings],
            (
                f"{_MARKS[item.state]} {item.name:<12}{one_line(item.text, 400)}"
                for item in findings
            ),
        )
        say(_verdict(findings))
    return 1 if broken else 0


def _verdict(findings: list[Finding]) -> str:
    """Return the verdict, which is the line below the findings."""
    counts = Counter(finding.state for finding in findings)
    if counts["problem"]:
        return f"✗ {count(counts['problem'], 'problem')} to fix before codeagent works here"
    notes = (
        f"; {count(counts['note'], 'note')}, nothing that you have to fix" if counts["note"] else ""
    )
    return f"✓ codeagent works here{notes}"


def _configuration(args: argparse.Namespace, workspace: Path) -> tuple[Settings, list[Finding]]:
    files = [
        f"{path} ({'read' if path.exists() else 'none'})"
        for path in (user_config_file(), workspace / PROJECT_FILE)
    ]
    findings = [Finding("config", "ok", ", ".join(files))]
    variables = [name for name in ENVIRONMENT if os.environ.get(name)]
    if variables:
        findings.append(Finding("environment", "ok", f"set: {', '.join(variables)}"))
    try:
        return settings_of(args, workspace), findings
    except ConfigError as error:
        return Settings(), [*findings, Finding("settings", "problem", str(error))]


def _rules(settings: Settings, local: LocalEnvironment, app: "App") -> list[Finding]:
    """Find rules that do not name a tool; an untrusted file of the project may still define it."""
    try:
        catalog = app.describe_tools(local, settings)
        unknown = catalog.names.misnamed(parse_rules(settings.rules))
    except CodeagentError as error:
        return [Finding("tools", "problem", str(error))]
    return [Finding("rules", "problem" if catalog.complete else "note", text) for text in unknown]


def _model(settings: Settings, environment: Mapping[str, str]) -> list[Finding]:
    """Report the model, and the names of the keys, whose values are never shown."""
    where = f" at {settings.api_base}" if settings.api_base else ""
    model = (
        Finding("model", "ok", f"{settings.model}{where}{_lane(settings)}")
        if settings.model
        else Finding(
            "model",
            "note",
            "not set: codeagent asks for it; or use --model NAME, CODEAGENT_MODEL, or model in the "
            "configuration file",
        )
    )
    keys = sorted(
        name
        for name, value in environment.items()
        if value and is_secret_name(name) and "KEY" in name.upper()
    )
    found = [f"present: {', '.join(keys)}"] if keys else []
    if (kept := KeyStore(config_dir()).file).exists():
        found.append(f"kept in {kept}")
    return [model, Finding("keys", "ok" if found else "note", "; ".join(found) or "none set")]


def _lane(settings: Settings) -> str:
    if settings.model is None or is_scripted(settings.model):
        return ""
    return f", {LANES[lane(settings.model, settings.api_base, None, settings.wire)]}"


def _state(local: LocalEnvironment) -> Finding:
    store = SessionStore(local.state_dir, Redactor(local.environment))
    nearest = next(folder for folder in (store.root, *store.root.parents) if folder.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(
            "sessions",
            "problem",
            f"{nearest} is not writable: set XDG_STATE_HOME to a folder that is",
        )
    try:
        return Finding("sessions", "ok", f"{len(store.summaries())} in {store.root}")
    except (OSError, SessionError) as error:
        return Finding("sessions", "problem", f"{store.root} cannot be read: {error}")


def _program(name: str, path: str | None, remedy: str, missing: FindingState) -> Finding:
    if path is None:
        return Finding(name, missing, f"not found: {remedy}")
    try:
        done = run_program(
            VERSION,
            [path, "--version"],
            folder=NOWHERE,
            environment={"LC_ALL": "C.UTF-8"},
            seconds=10,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            name, missing, f"{path} does not say its version ({type(error).__name__}): {remedy}"
        )
    return Finding(
        name, "ok", f"{done.stdout.decode(errors='replace').partition(chr(10))[0]} ({path})"
    )


def _git(found: Finding) -> list[Finding]:
    if found.state != "ok" or (warning := git_warning(found.text)) is None:
        return [found]
    return [found, Finding("git version", "note", warning)]


def git_warning(version: str) -> str | None:
    """Return a warning if the output of `git --version` is older than the fix."""
    try:
        needed = needed_version(version, _GIT_FIXED)
    except ValueError:
        return "its version is unknown: make sure that it has the fix for CVE-2025-48384"
    if needed is None:
        return None
    return f"older than {needed}: a submodule can run code when it is cloned (CVE-2025-48384), unless patched"


def _engine(environment: Mapping[str, str]) -> list[Finding]:
    try:
        with local_engine(environment.get("DOCKER_HOST") or None) as engine:
            found = engine.versions()
    except SandboxError as error:
        return [_unusable("engine", error)]
    text = (
        f"{found.name} {found.engine}, API {found.api}, runc {found.runc} at {engine.socket_path}"
    )
    warning = runtime_warning(found.runc)
    return [Finding("engine", "ok", text), *([Finding("runc", "note", warning)] if warning else [])]


def python_packages(local: LocalEnvironment) -> list[Finding]:
    """Report how commands get the packages of a Python project."""
    workspace = local.workspace
    names = (
        "uv.lock",
        "poetry.lock",
        "pdm.lock",
        "Pipfile.lock",
        "requirements.txt",
        "pyproject.toml",
    )
    needs = next((name for name in names if (workspace / name).is_file()), None)
    if (active := active_environment(workspace, local.environment)) is not None:
        return [Finding("python", "ok", f"commands use the activated environment {active}")]
    found = next(
        (name for name in (".venv", "venv", "env") if (workspace / name / "pyvenv.cfg").is_file()),
        None,
    )
    if found is not None:
        how = f"activate it before you start codeagent (. {found}/bin/activate), so that commands use it"
        return [Finding("python", "note", f"{found} is not activated: {how}")]
    if needs is None:
        return []
    ways = (
        "create a virtual environment in the workspace and activate it; or have an image with the packages of a lock "
        "file (codeagent sandbox build --packages), or configure one (image under [sandbox]); or let the agent install "
        "them in a command with network access, which asks"
    )
    return [Finding("python", "note", f"{needs} found, but no virtual environment: {ways}")]


def of_extensions(extensions: Extensions, workspace: Path) -> Iterator[Finding]:
    """Report what extensions find, and what the user does without; blocks."""
    for each in extensions.on:
        if not each.doctor:
            continue
        try:
            yield from resolved(each.doctor)(workspace)
        except Exception as error:  # whatever the code of a package raises
            why = one_line(f"{type(error).__name__}: {error}", 200)
            yield Finding(each.name, "problem", f"this extension cannot look: {why}")
    for each in extensions.off:
        if each.when_off:
            yield Finding(each.name, "note", f"switched off: {each.when_off}")


async def _sandbox(settings: Settings, local: LocalEnvironment, app: "App") -> list[Finding]:
    """Make a sandbox as a run would, and remove it again."""
    sandbox = app.docker_sandbox(settings, local, local.workspace, "doctor")
    try:
        info = await sandbox.start(say)
        lacking = await _lacking(sandbox, local.workspace, info.image_origin)
        trials = await _trials(settings, sandbox)
    except SandboxError as error:
        return [_unusable("sandbox", error)]
    finally:
        await sandbox.close()
    findings = [
        Finding("image", "ok", f"{info.image} ({info.image_origin})"),
        *lacking,
        Finding("sandbox", "ok", f"user {info.user}, network {info.network}"),
        Finding(
            "self-test",
            "ok",
            f"{len(sandbox.tested.passed)} of {len(sandbox.tested.passed)} passed",
        ),
        trials,
    ]
    return findings + [Finding("sandbox", "note", warning) for warning in info.warnings]


async def _trials(settings: Settings, sandbox: Sandbox) -> Finding:
    """Report how commands are approved that nobody decided about."""
    if settings.sandbox.approval == "text":
        return Finding("trials", "ok", "by text: approval under [sandbox]")
    await sandbox.prepare_trials()
    if sandbox.untried:
        return Finding("trials", "note", f"by text: {sandbox.untried}")
    if why := sandbox.tried_read_only:
        return Finding("trials", "note", f"read-only view: {why}")
    return Finding("trials", "ok", "views of the workspace (overlay)")


async def _lacking(sandbox: Sandbox, workspace: Path, origin: str) -> list[Finding]:
    """Report what the repository needs and the image lacks. Raises SandboxError."""
    needs = await asyncio.to_thread(needs_of, workspace)
    if not needs:
        return []
    output = bytearray()

    async def keep(stream: OutputStream, data: bytes) -> None:
        output.extend(data if stream == "stdout" else b"")

    names = " ".join(shlex.quote(need.program) for need in needs)
    look = f'for name in {names}; do command -v "$name" > /dev/null && echo "$name $(python3 --version)"; done'
    await sandbox.run(Command(look, "doctor", apart=True), keep)
    found = dict(
        line.partition(" ")[::2] for line in output.decode("utf-8", "replace").splitlines()
    )
    python = found.get("python3", "").removeprefix("Python ")
    return [
        Finding("needs", "note", _shortcoming(need, python, workspace, origin))
        for need in needs
        if need.program not in found or (need.version and not need.met_by(python))
    ]


def _shortcoming(need: Need, python: str, workspace: Path, origin: str) -> str:
    """Say what the image lacks, and the next step; `python` is the version inside, empty if there
    is none."""
    has = python if need.version else ""
    what = f"{need.file} needs {need.program} {need.version}".rstrip()
    what += f", and the image has {has}" if has else ", which the image lacks"
    other = "choose an image that has it (image under [sandbox])"
    if not origin.startswith(HOST_TOOLCHAIN):
        return f"{what}: {other}"
    elsewhere = None if has else find_program(need.program, workspace)
    beside = (
        ""
        if elsewhere is None
        else f"; {elsewhere} is outside /usr, and the image shows nothing else"
    )
    return f"{what}{beside}: install it below /usr (apt-get install), or {other}"


def _unusable(name: str, error: SandboxError) -> Finding:
    remedy = getattr(error, "remedy", "")
    return Finding(
        name,
        "problem",
        f"{error}; bash is disabled, the other tools work{': ' if remedy else ''}{remedy}",
    )
