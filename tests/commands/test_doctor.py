"""`codeagent doctor`: what it finds, and that it shows no key."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.commands.doctor import _verdict, of_extensions, python_packages
from codeagent.config.extensions import Extensions
from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.extension import Extension, Finding, FindingState
from tests.e2e.product import Product
from tests.table import for_each

KEY = "sk-canary-0123456789"


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    yield Product(tmp_path / "work", tmp_path / "home")


def findings(product: Product, **environment: str) -> tuple[int, dict[str, tuple[str, str]], str]:
    done = product.call("doctor", "--json", env=product.environment | environment)
    report = json.loads(done.out)
    assert report["usable"] == (done.code == 0)
    return (
        done.code,
        {item["name"]: (item["state"], item["text"]) for item in report["findings"]},
        done.out,
    )


def test_without_an_engine_it_says_so_with_the_remedy_and_is_not_usable(product: Product) -> None:
    code, found, _ = findings(product, DOCKER_HOST=f"unix://{product.home}/no.sock")
    assert code == 1
    assert found["engine"][0] == found["sandbox"][0] == "problem"
    assert "bash is disabled" in found["sandbox"][1]


def test_keys_are_named_and_never_shown(product: Product) -> None:
    _, found, printed = findings(product, DOCKER_HOST="unix:///no.sock", ANTHROPIC_API_KEY=KEY)
    assert found["keys"] == ("ok", "present: ANTHROPIC_API_KEY")
    assert KEY not in printed


def test_a_broken_configuration_file_is_a_problem_with_its_line(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("modle = 1\n")
    _, found, _ = findings(product, DOCKER_HOST="unix:///no.sock")
    assert found["settings"][0] == "problem" and f"{config}:1: modle" in found["settings"][1]


def test_a_rule_that_names_no_tool_is_a_problem(product: Product) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[rules]\ndeny = ["Write(*)", "bash(rm *)"]\n')
    _, found, _ = findings(product, DOCKER_HOST="unix:///no.sock")
    assert found["rules"] == (
        "problem",
        "the rule Write(*) does not name a tool; did you mean write(*)?",
    )


def test_a_git_of_the_repository_s_own_is_not_run(product: Product) -> None:
    planted = product.workspace / "git"
    planted.write_text(f"#!/bin/sh\ntouch {product.home}/P\necho git version planted\n")
    planted.chmod(0o755)
    path = f"{product.workspace}:{product.environment['PATH']}"
    _, found, _ = findings(product, DOCKER_HOST="unix:///no.sock", PATH=path)
    assert found["git"][1].startswith("git version ") and "planted" not in found["git"][1]
    assert not (product.home / "P").exists()


def test_programs_sessions_and_the_missing_model_are_reported(product: Product) -> None:
    _, found, _ = findings(product, DOCKER_HOST="unix:///no.sock")
    assert found["git"][1].startswith("git version ")
    assert found["ripgrep"][1].startswith("ripgrep ")
    assert found["model"][0] == "note"
    assert found["sessions"][1].startswith("0 in ")


@pytest.mark.parametrize(
    ("name", "wire", "said"),
    [
        ("openai/gpt-5", "auto", "openai/gpt-5, straight to its server"),
        ("openai/gpt-5", "litellm", "openai/gpt-5, through litellm"),
        ("bedrock/x", "auto", "bedrock/x, through litellm"),
        ("demo", "auto", "demo"),
    ],
)
def test_the_way_of_the_model_s_requests_is_named(
    product: Product, name: str, wire: str, said: str
) -> None:
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'model = "{name}"\nwire = "{wire}"\n')
    _, found, _ = findings(product, DOCKER_HOST="unix:///no.sock")
    assert found["model"] == ("ok", said)


@pytest.mark.docker
def test_with_an_engine_the_sandbox_is_tried_and_everything_is_usable(product: Product) -> None:
    code, found, _ = findings(product)
    assert code == 0
    assert found["engine"][1].startswith("Docker ")
    assert (
        found["image"][0] == found["sandbox"][0] == found["self-test"][0] == "ok"
        or found["sandbox"][0] == "note"
    )
    assert found["trials"] == ("ok", "views of the workspace (overlay)")
    config = product.home / "config/codeagent/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[sandbox]\napproval = "text"\n')
    called = product.call("doctor")
    said = called.out
    assert "✓ codeagent works here" in called.err
    assert "network none" in said and "trials      by text: approval under [sandbox]" in said


@pytest.mark.docker
def test_what_the_repository_needs_and_the_image_lacks_is_said_with_the_next_step(
    product: Product,
) -> None:
    (product.workspace / "Makefile").touch()
    (product.workspace / "mix.exs").touch()
    (product.workspace / "pyproject.toml").write_text('[project]\nrequires-python = ">=99"\n')
    done = product.call("doctor", "--json")
    needs = [item["text"] for item in json.loads(done.out)["findings"] if item["name"] == "needs"]
    assert [text.partition(", ")[0] for text in needs] == [
        "mix.exs needs mix",
        "pyproject.toml needs python3 >=99",
    ]
    assert "which the image lacks" in needs[0] and "and the image has 3." in needs[1]
    assert all("choose an image that has it" in text for text in needs)
    assert done.code == 0


@for_each(
    ("states", "verdict"),
    [
        (("ok",), "✓ codeagent works here"),
        (("ok", "note"), "✓ codeagent works here; 1 note, nothing that you have to fix"),
        (("problem", "note"), "✗ 1 problem to fix before codeagent works here"),
        (("problem", "problem"), "✗ 2 problems to fix before codeagent works here"),
    ],
)
def test_the_verdict_says_whether_codeagent_works_and_what_to_fix(
    states: tuple[FindingState, ...], verdict: str
) -> None:
    assert _verdict([Finding("x", state, "") for state in states]) == verdict


def test_as_text_every_finding_is_one_line(product: Product) -> None:
    done = product.call("doctor", env=product.environment | {"DOCKER_HOST": "unix:///no.sock"})
    assert all(line[0] in "✓–✗" for line in done.out.splitlines())


def test_how_commands_come_by_the_packages_of_a_python_project_is_said(tmp_path: Path) -> None:
    def found(**environment: str) -> list[str]:
        return [
            finding.text
            for finding in python_packages(
                LocalEnvironment(tmp_path, tmp_path / "state", environment)
            )
        ]

    assert found() == []
    (tmp_path / "uv.lock").touch()
    assert "uv.lock found, but no virtual environment" in found()[0]
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/pyvenv.cfg").touch()
    assert "activate it before you start codeagent" in found()[0]
    assert found(VIRTUAL_ENV=str(tmp_path / ".venv")) == [
        f"commands use the activated environment {tmp_path}/.venv"
    ]


def test_an_extension_that_fails_is_a_problem_and_the_others_are_asked(tmp_path: Path) -> None:
    broken = Extension(name="mine", about="", doctor="no.such.module:look")
    off = Extension(name="theirs", about="", when_off="nothing is sent")
    found = list(of_extensions(Extensions((broken,), (off,)), tmp_path))
    assert [(one.name, one.state) for one in found] == [("mine", "problem"), ("theirs", "note")]
    assert "ModuleNotFoundError" in found[0].text
