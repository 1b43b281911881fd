"""The image that is trusted, built and used is the one that was shown, whatever its files have
become since."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot

from codeagent.app import LocalApp
from codeagent.app.sandbox import docker_sandbox
from codeagent.commands.launcher import LocalLauncher
from codeagent.config.local_environment import LocalEnvironment, config_dir
from codeagent.config.settings import Settings
from codeagent.core.errors import SandboxUnavailable
from codeagent.extensions.images import command as sandbox_image
from codeagent.extensions.images import repository_image
from codeagent.extensions.images.build import build
from codeagent.extensions.images.plan import RepositoryImages
from codeagent.sandbox.described_image import BuildLimits, ImageSummary
from codeagent.sandbox.image import require_image
from codeagent.tui.launcher import Consent, LaunchOptions, Missing
from codeagent.tui.pages.opening import FolderQuestion, ask
from tests.e2e.product import Product
from tests.extensions.images.test_repository_image import Recorder
from tests.table import for_each
from tests.tui.pages.test_folder_question import TEXT

SETTINGS = Settings(model="demo")
DEV, FILE = ".devcontainer.json", "Dockerfile"
BEFORE = {
    DEV: '{"build": {"dockerfile": "Dockerfile", "context": "sub", "args": {"A": "1"}, "target": "one"}}',
    FILE: "FROM a AS one\nCOPY x /x\n",
    "sub/.dockerignore": "y\n",
}
SWAPS = (
    {FILE: "FROM a AS one\nCOPY x /x\nRUN evil\n"},
    {FILE: "FROM a AS one\nCOPY x  /x\n"},
    {FILE: "FROM evil AS one\nCOPY x /x\n"},
    {DEV: BEFORE[DEV].replace('"1"', '"2"')},
    {DEV: BEFORE[DEV].replace('"one"', '"two"')},
    {DEV: BEFORE[DEV].replace('"sub"', '"."')},
    {DEV: BEFORE[DEV].replace('"Dockerfile"', '"Other"'), "Other": "FROM evil AS one\n"},
    {DEV: '{"image": "evil"}'},
    {"sub/.dockerignore": ""},
    {".devcontainer/devcontainer.json": '{"image": "evil"}'},
)
"""What may be written while a question waits."""


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Product]:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    yield Product(tmp_path / "work", tmp_path / "home")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def restore(folder: Path, swapped: dict[str, str]) -> None:
    for name in swapped:
        (folder / name).unlink()
    write(folder, BEFORE)


def images(folder: Path) -> RepositoryImages:
    return RepositoryImages(folder, config_dir())


def trusted_now(folder: Path) -> bool:
    found = images(folder).found()
    return found is not None and found.answer == "trusted"


async def question(folder: Path, answered: LaunchOptions | None = None) -> Missing | None:
    found = await LocalLauncher(folder, LocalApp()).missing(
        SETTINGS, answered or LaunchOptions(proceed=True)
    )
    assert found is None or found.kind == "image"
    return found


@for_each("swap", SWAPS)
async def test_a_yes_trusts_nothing_that_changed_while_the_question_was_open(
    product: Product, swap: dict[str, str]
) -> None:
    work = product.workspace
    write(work, BEFORE)
    asked = await question(work)
    assert asked is not None
    yes = LaunchOptions(proceed=True, image=Consent(True, asked.digest))
    write(work, swap)
    again = await question(work, yes)
    assert (
        again is not None
        and "changed while you were being asked, and nothing was trusted" in again.text
    )
    assert again.digest != asked.digest and not trusted_now(work)
    restore(work, swap)
    assert not trusted_now(work)


async def test_a_yes_to_what_is_still_the_same_is_kept(product: Product) -> None:
    write(product.workspace, BEFORE)
    asked = await question(product.workspace)
    assert asked is not None
    yes = LaunchOptions(proceed=True, image=Consent(True, asked.digest))
    assert await question(product.workspace, yes) is None and trusted_now(product.workspace)


async def test_a_yes_that_names_nothing_that_was_shown_counts_for_nothing(product: Product) -> None:
    write(product.workspace, BEFORE)
    assert (
        await question(product.workspace, LaunchOptions(proceed=True, image=Consent(True)))
        is not None
    )
    assert not trusted_now(product.workspace)


async def test_what_became_too_long_to_be_shown_is_not_trusted_and_not_used(
    product: Product,
) -> None:
    write(product.workspace, BEFORE)
    asked = await question(product.workspace)
    assert asked is not None
    write(product.workspace, {FILE: BEFORE[FILE] + "RUN evil\n" * 30})
    yes = LaunchOptions(proceed=True, image=Consent(True, asked.digest))
    assert await question(product.workspace, yes) is None
    assert not trusted_now(product.workspace)
    local = LocalEnvironment(product.workspace, product.home / "state", {}, config_dir=config_dir())
    spec = docker_sandbox(SETTINGS, local, product.workspace, "x").spec
    assert spec.image.described is None and DEV in spec.image.note


async def test_the_screen_hands_on_what_it_showed(product: Product) -> None:
    given: list[LaunchOptions | None] = []

    class Asking(App[None]):
        def on_mount(self) -> None:
            self.run_worker(self.put())

        async def put(self) -> None:
            missing = Missing("image", TEXT, digest="of what is shown")
            given.append(await ask(self, None, LaunchOptions(), missing))  # type: ignore[arg-type]  # no question of it

    app = Asking()
    async with app.run_test() as pilot:
        await shown(pilot, lambda: isinstance(app.screen, FolderQuestion))
        assert isinstance(app.screen, FolderQuestion)
        app.screen.dismiss(True)
        await shown(pilot, lambda: bool(given))
    assert given == [LaunchOptions(image=Consent(True, "of what is shown"))]


async def shown(pilot: Pilot[None], ready: Callable[[], bool]) -> None:
    while not ready():
        await pilot.pause()


def test_sandbox_trust_trusts_what_it_printed(
    product: Product, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(product.workspace, BEFORE)
    lines = sandbox_image.summary_lines

    def swapped(summary: ImageSummary) -> Iterator[str]:
        yield from lines(summary)
        write(product.workspace, SWAPS[0])

    monkeypatch.setattr(sandbox_image, "summary_lines", swapped)
    sandbox_image.trust_image(images(product.workspace))
    assert "RUN evil" not in capsys.readouterr().out
    assert not trusted_now(product.workspace), "what is there now was not printed"
    restore(product.workspace, SWAPS[0])
    assert trusted_now(product.workspace)


@for_each("swap", SWAPS)
def test_a_run_that_accepts_the_project_accepts_it_as_it_was_when_the_run_began(
    product: Product, tmp_path_factory: pytest.TempPathFactory, swap: dict[str, str]
) -> None:
    """The agent can write these files, and each of its own agents gets a sandbox that is made
    later."""
    work = tmp_path_factory.mktemp("work")
    write(work, BEFORE)
    digest = images(work).accepted()
    local = LocalEnvironment(
        work,
        work.parent / "state",
        {},
        config_dir=config_dir(),
        trust_project=True,
        accepted_image=digest,
    )
    first = docker_sandbox(SETTINGS, local, work, "x").spec
    assert first.image.described is not None and first.image.described.digest == digest
    write(work, swap)
    tree = tmp_path_factory.mktemp("tree")
    later = docker_sandbox(SETTINGS, replace(local, workspace=tree, copy_of=work), tree, "x").spec
    assert later.image.described is None
    with pytest.raises(SandboxUnavailable, match="has changed since this run began"):
        require_image(later)


def test_a_run_that_began_without_an_image_accepts_none_that_appears_later(
    product: Product,
) -> None:
    digest = images(product.workspace).accepted()
    write(product.workspace, {DEV: '{"image": "evil"}'})
    local = LocalEnvironment(
        product.workspace,
        product.home,
        {},
        config_dir=config_dir(),
        trust_project=True,
        accepted_image=digest,
    )
    assert (
        digest == ""
        and docker_sandbox(SETTINGS, local, product.workspace, "x").spec.image.described is None
    )


def test_a_build_never_reads_the_files_that_describe_it_again(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(product.workspace, {FILE: "FROM a\nENV A=1\n"})
    found = images(product.workspace).found()
    assert found is not None
    write(product.workspace, {FILE: "FROM evil\n"})
    monkeypatch.setattr(repository_image, "read_regular", None)
    for network in (False, True):
        engine = Recorder("a")
        build(engine, found.image, BuildLimits(network, memory_bytes=0), lambda line: None)
        assert b"ENV A=1\n" in engine.contents["the Dockerfile"]
