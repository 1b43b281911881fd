"""`codeagent sandbox trust|distrust|status|build`, and which image a run gets before and after."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.app.sandbox import docker_sandbox
from codeagent.config.local_environment import LocalEnvironment
from codeagent.config.settings import SandboxSettings, Settings
from codeagent.extensions.images.build import BuildableImage
from codeagent.extensions.images.plan import RepositoryImages
from codeagent.extensions.images.repository_image import RepositoryImage
from codeagent.sandbox.described_image import ImagePlan, ImageSummary, summary_lines
from tests.e2e.product import Product
from tests.images import small_image
from tests.table import for_each

FILE = ".devcontainer/devcontainer.json"


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    yield Product(tmp_path / "work", tmp_path / "home")


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., ImagePlan]:
    """What is planned for the folder `work`, given the configured image."""
    (tmp_path / "work").mkdir()

    def planned(configured: str | None = None, **options: str) -> ImagePlan:
        return images(tmp_path / "work").plan(configured, **options)

    return planned


def write(folder: Path, text: str = '{"image": "a"}') -> None:
    (folder / FILE).parent.mkdir(exist_ok=True)
    (folder / FILE).write_text(text)


def images(folder: Path) -> RepositoryImages:
    return RepositoryImages(folder, folder.parent / "config")


def source(plan: ImagePlan) -> RepositoryImage | None:
    """What of the repository is built, None if it is not."""
    if plan.described is None:
        return None
    assert isinstance(plan.described, BuildableImage)
    return plan.described.source


def trust(folder: Path) -> None:
    found = images(folder).found()
    assert found is not None
    found.trust()


def test_before_trust_it_is_told_of_and_not_used(
    plan: Callable[..., ImagePlan], tmp_path: Path
) -> None:
    assert plan() == ImagePlan()
    write(tmp_path / "work")
    asked = plan()
    assert (asked.described, asked.withheld, FILE in asked.note) == (None, "", True)
    assert "is not trusted; codeagent sandbox status" in plan("repository").withheld
    images(tmp_path / "work").refuse()
    assert plan() == ImagePlan()
    write(tmp_path / "work", '{"image": "b"}')
    assert plan() == ImagePlan(), "a no is for whatever it becomes"


def test_a_dockerfile_alone_is_used_once_trusted_and_not_told_of_before(
    plan: Callable[..., ImagePlan], tmp_path: Path
) -> None:
    (tmp_path / "work/Dockerfile").write_text("FROM a")
    assert plan() == ImagePlan()
    trust(tmp_path / "work")
    assert plan().described is not None


def test_any_change_after_trust_leaves_no_image_until_the_user_says_so(
    plan: Callable[..., ImagePlan], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    write(work)
    trust(work)
    used = source(plan())
    assert used is not None and used.image == "a"
    for text, said in (('{"image": "b"}', "has changed since you trusted"), ("{", "is not JSON")):
        write(work, text)
        assert said in plan().withheld and plan().described is None
    (work / FILE).unlink()
    assert "describes no image" in plan().withheld
    write(work)
    assert source(plan()) == used
    write(work, '{"image": "b"}')
    accepted = source(plan(accepted=images(work).accepted()))
    assert accepted is not None and accepted.image == "b"


def test_a_configured_image_comes_first_and_the_repository_is_not_looked_at(
    plan: Callable[..., ImagePlan], tmp_path: Path
) -> None:
    write(tmp_path / "work", "{")
    assert plan("mine:1") == ImagePlan("mine:1")
    assert "is not JSON" in plan().note


def test_an_agent_in_a_worktree_gets_the_image_of_the_project(tmp_path: Path) -> None:
    for name in ("work", "tree"):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    trust(tmp_path / "work")
    there = LocalEnvironment(
        tmp_path / "tree", tmp_path / "state", {}, config_dir=tmp_path / "config"
    )
    here = replace(there, copy_of=tmp_path / "work")
    own, lent = (
        source(docker_sandbox(Settings(), local, local.workspace, "x").spec.image)
        for local in (there, here)
    )
    assert own is None and lent is not None and lent.root == tmp_path / "work"


def test_the_listing_hides_nothing_of_what_would_be_built() -> None:
    rows = (
        ("builds", f"RUN true{' ' * 400}&& evil"),
        ("argument", "A=\n            builds      RUN harmless\x1b[8m"),
    )
    _, first, second = summary_lines(ImageSummary("Dockerfile", "trusted", True, rows))
    assert first.endswith(f"{' ' * 400}&& evil")
    assert "\\n" in second and "\x1b" not in second and "\n" not in second


@for_each(
    "level, network", [("none", False), ("allow-list", False), ("ask", False), ("open", True)]
)
def test_only_an_open_dial_gives_a_build_the_network(
    tmp_path_factory: pytest.TempPathFactory, level: str, network: bool
) -> None:
    local = LocalEnvironment(tmp_path_factory.mktemp("work"), Path("/nowhere"), {})
    settings = Settings(sandbox=SandboxSettings(network=level))
    assert docker_sandbox(settings, local, local.workspace, "x").spec.image.build_network is network


def test_only_its_own_image_may_be_asked_for(plan: Callable[..., ImagePlan]) -> None:
    assert "describes no image" in plan("repository").withheld


@pytest.mark.docker
def test_from_the_listing_to_a_command_in_it(product: Product) -> None:
    with small_image() as base:
        write(product.workspace, '{"build": {"dockerfile": "D"}, "runArgs": ["--privileged"]}')
        (product.workspace / ".devcontainer/D").write_text(
            f"FROM {base}\nENV MADE=here\nRUN : > /made\n"
        )
        before = product.call("sandbox", "status").out
        assert f"repository  {FILE}: not used until you trust it" in before
        assert "builds      RUN : > /made" in before and "not applied runArgs" in before
        assert "host toolchain" in before or "pinned by digest" in before or "built here" in before
        assert "not applied runArgs" in product.call("sandbox", "trust").out
        assert "is not built yet" in product.call("sandbox", "status").out
        built = product.call("sandbox", "build")
        assert (
            built.code == 0 and "RUN : > /made" in built.err and "commands run in it" in built.out
        )
        status = json.loads(product.call("sandbox", "status", "--json").out)
        assert status["image_origin"] == f"this repository's {FILE}"
        script = product.script(
            {"calls": [["bash", {"command": "echo $MADE; ls /made"}]]}, {"text": "Done."}
        )
        ran = product.call("run", "go", "--model", script, "--mode", "auto", "--output", "jsonl")
        assert "here\\n/made" in ran.out
        (product.workspace / ".devcontainer/D").write_text(f"FROM {base}\n")
        changed = product.call("sandbox", "build")
        assert changed.code == 1 and "has changed since you trusted" in changed.err
        said = product.call("run", "go", "--model", script, "--mode", "auto")
        assert "bash is disabled" in said.err and "has changed since you trusted" in said.err
        report = json.loads(product.call("doctor", "--json").out)
        found = {item["name"]: (item["state"], item["text"]) for item in report["findings"]}
        assert found["repository"][0] == "note" and "no command runs" in found["repository"][1]
        assert found["sandbox"][0] == "problem" and not report["usable"]
        product.call("sandbox", "distrust")
        assert "not used, as you said" in product.call("sandbox", "status").out


@pytest.mark.docker
def test_packages_are_not_fetched_before_their_hosts_are_confirmed(product: Product) -> None:
    none = product.call("sandbox", "build", "--packages")
    assert none.code == 2 and "found neither a uv.lock" in none.err
    locked = f"one==1 --hash=sha256:{'a' * 64}\n"
    (product.workspace / "requirements.txt").write_text(
        f"-i https://index.example/simple\n{locked}"
    )
    asked = product.call("sandbox", "build", "--packages")
    assert "requirements.txt: 1 package, from https://index.example/simple" in asked.out
    assert "reached for it: index.example;" in asked.out
    assert asked.code == 2 and "nothing was fetched: nobody is there to ask" in asked.err


@pytest.mark.docker
def test_network_for_a_build_needs_something_to_build(product: Product) -> None:
    done = product.call("sandbox", "build", "--network")
    assert done.code == 2 and "nothing was built" in done.err
