"""What the kernel does with a described image while the extension that reads it is switched off."""

from dataclasses import replace
from pathlib import Path

import pytest

from codeagent import cli
from codeagent.app.images import accepted_image, image_source
from codeagent.app.sandbox import docker_sandbox
from codeagent.commands.doctor import of_extensions
from codeagent.config.extensions import actions_of, all_extensions
from codeagent.config.local_environment import LocalEnvironment, user_config_file
from codeagent.config.settings import ExtensionSettings, SandboxSettings, Settings
from codeagent.core.errors import SandboxUnavailable
from codeagent.extensions.images.plan import RepositoryImages
from codeagent.sandbox.described_image import ImagePlan
from codeagent.sandbox.image import require_image

OFF = Settings(extensions=ExtensionSettings(off=("images",)))


@pytest.fixture
def local(tmp_path: Path) -> LocalEnvironment:
    """A repository whose image the user trusts."""
    (work := tmp_path / "work").mkdir()
    (work / ".devcontainer.json").write_text('{"image": "a"}')
    found = RepositoryImages(work, tmp_path / "config").found()
    assert found is not None
    found.trust()
    return LocalEnvironment(work, tmp_path / "state", {}, config_dir=tmp_path / "config")


def test_the_description_is_ignored(local: LocalEnvironment) -> None:
    on, off = (
        docker_sandbox(settings, local, local.workspace, "x").spec.image
        for settings in (Settings(), OFF)
    )
    assert on.described is not None
    assert off == ImagePlan()
    assert image_source(OFF, local.workspace, local.config_dir) is None
    assert accepted_image(OFF, local.workspace, local.config_dir) == ""


def test_a_configuration_that_allows_no_other_image_leaves_none(local: LocalEnvironment) -> None:
    settings = replace(OFF, sandbox=SandboxSettings(image="repository"))
    spec = docker_sandbox(settings, local, local.workspace, "x").spec
    with pytest.raises(SandboxUnavailable, match="the extension that reads it is off"):
        require_image(spec)


def test_the_doctor_says_so(local: LocalEnvironment) -> None:
    [finding] = of_extensions(all_extensions().without({"images"}), local.workspace)
    assert (finding.name, finding.state) == ("images", "note")
    assert finding.text == "switched off: the image that a repository describes is ignored"


def test_an_action_does_not_replace_one_that_the_command_has_itself() -> None:
    found = [action.words for _, action in actions_of("sandbox", ("trust",))]
    assert found == ["sandbox distrust"]


def test_its_actions_say_so(
    local: LocalEnvironment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(local.workspace.parent))
    user_config_file().parent.mkdir()
    user_config_file().write_text('[extensions]\noff = ["images"]\n')
    user_config_file().chmod(0o600)
    assert [action.name for _, action in actions_of("sandbox", ())] == ["trust", "distrust"]
    assert cli.main(["sandbox", "distrust", "--cwd", str(local.workspace)]) == 2
    assert "sandbox distrust: the extension images is switched off" in capsys.readouterr().err
