"""A way out opens nothing else: the probes of test_escapes in the container of a command that may reach hosts."""

from pathlib import Path

import pytest

from codeagent.core.ports import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.effort import part
from tests.sandboxes import Ran, batch, make_repository, parts, sandbox_spec
from tests.security.escape_probes import ALONE, PROBES

THE_WAY_OUT = {"any socket is reachable"}
"""Which the proxy's socket is, on purpose."""


@pytest.mark.docker
@pytest.mark.soak(tried=len(PROBES))
async def test_every_probe_is_stopped_there_but_the_one_that_finds_the_proxy_s_socket(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "project")
    (root / ".codeagent").mkdir()
    (root / ".env").write_text("API_KEY=CANARY\n")
    (root / "deploy").mkdir()
    (root / "deploy" / "id_ed25519").write_text("CANARY-KEY PRIVATE KEY\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("untouched")
    places = {"OUTSIDE": str(outside), "STATE": str(tmp_path / "state"), "HOSTPORT": "22", "HOSTSHADOW": "unreadable"}
    probes = {name: PROBES[name] for name in {*part([*PROBES], 60), *THE_WAY_OUT} - {ALONE}}
    for place, value in places.items():
        probes = {name: script.replace(place, value) for name, script in probes.items()}
    sandbox = DockerSandbox(sandbox_spec(root, tmp_path / "state"))
    try:
        ran, alone = Ran(), Ran()
        await sandbox.run(Command(batch(probes), "call", hosts=("one.example",)), ran)
        await sandbox.run(Command(PROBES[ALONE], "call", hosts=("one.example",)), alone)
    finally:
        await sandbox.close()
    fired = {name for name, tried in parts(ran, probes).items() if b"BREACH" in tried.stdout}
    assert b"BREACH" not in alone.stdout
    assert fired == THE_WAY_OUT
    assert (outside / "canary").read_text() == "untouched"
