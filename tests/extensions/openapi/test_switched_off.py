"""What a project's documents keep, and lose, while the extension that reads them is switched off."""

from pathlib import Path

import pytest

from codeagent import cli
from codeagent.config.local_environment import config_dir, user_config_file
from codeagent.extensions.openapi.added import DocumentFiles, DocumentRecord


def test_trust_that_is_taken_back_does_not_outlast_the_switch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("config", "state"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    (work := tmp_path / "work").mkdir()
    user_config_file().parent.mkdir(parents=True)
    user_config_file().write_text('[extensions]\noff = ["openapi"]\n')
    user_config_file().chmod(0o600)
    files = DocumentFiles(config_dir(), work)
    files.add(
        "api",
        DocumentRecord(origin="api.yaml", sha256="", hosts=("api.example.org",)),
        b"openapi: 3.1.0\n",
        project=True,
    )
    files.trust()
    assert files.untrusted() == ()
    assert cli.main(["tools", "distrust", "--cwd", str(work)]) == 0
    assert files.untrusted() == ("api (OpenAPI)",)
