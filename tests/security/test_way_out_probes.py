"""A way out opens nothing else: the probes of test_escapes in the container of a command that may reach hosts."""

from pathlib import Path

import pytest

from codeagent.core.ports import Command
from codeagent.sandbox.docker_sandbox import DockerSandbox
from tests.sandboxes import Ran, make_repository, sandbox_spec
from tests.security.escape_probes import PROBES

THE_WAY_OUT = {"any socket is reachable"}
"""Which the proxy's socket is, on purpose."""


@pytest.mark.docker
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
    sandbox = DockerSandbox(sandbox_spec(root, tmp_path / "state"))
    fired = set()
    try:
        for name, script in PROBES.items():
            for place, value in places.items():
                script = script.replace(place, value)
            ran = Ran()
            await sandbox.run(Command(script, "call", hosts=("one.example",)), ran)
            if b"BREACH" in ran.stdout:
                fired.add(name)
    finally:
        await sandbox.close()
    assert fired == THE_WAY_OUT
    assert (outside / "canary").read_text() == "untouched"
