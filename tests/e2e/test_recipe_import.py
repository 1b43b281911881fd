"""`codeagent recipes import` shows what a workflow becomes, and writes it only where it is told,
untrusted."""

import pytest

from tests.e2e.conftest import product as product
from tests.e2e.product import Done, Product, calls, results, say
from tests.extensions.recipes.workflows.test_conversion import CHAIN, CODING

RECIPE, TOOLS = ".codeagent/commands/small-feature.yaml", ".codeagent/tools/small-feature.yaml"


@pytest.fixture
def placed(product: Product) -> Product:
    for path in product.workspace.iterdir():
        path.unlink()
    (product.workspace / "flow.yaml").write_text(CODING)
    return product


def files(product: Product) -> set[str]:
    found = (path for path in product.workspace.rglob("*") if path.is_file())
    return {str(path.relative_to(product.workspace)) for path in found}


@pytest.mark.parametrize("command", [("tools", "check"), ("recipes", "check"), ("run", "--recipe")])
def test_every_command_that_is_given_a_workflow_names_the_import(
    placed: Product, command: tuple[str, ...]
) -> None:
    done = placed.call(*command, "flow.yaml")
    assert done.code == 2
    assert (
        "flow.yaml:1: this is a workflow of AWF: codeagent recipes import flow.yaml converts it into a recipe"
        in done.err
    )


def test_without_a_folder_it_is_shown_and_nothing_is_written(placed: Product) -> None:
    done = placed.call("recipes", "import", "flow.yaml")
    assert done.code == 0 and files(placed) == {"flow.yaml"}
    assert (
        done.out.startswith(f"# {RECIPE}\nname: small-feature\n")
        and f"\n# {TOOLS}\nname: small-feature\n" in done.out
    )
    assert "flow.yaml:38: steps[0].options.temperature: no counterpart here" in done.err
    assert done.err.endswith("nothing was written: --to .codeagent writes this into the project\n")


def test_what_is_written_passes_the_checks_and_runs_once_it_is_trusted(placed: Product) -> None:
    (placed.workspace / "src").mkdir()
    (placed.workspace / "src/a.txt").write_text("inside\n")
    (placed.workspace / "flow.yaml").write_text(
        CODING.replace("options: {model: claude-sonnet-4-5, ", "options: {")
    )
    assert placed.call("recipes", "import", "flow.yaml", "--to", ".codeagent").code == 0
    assert (
        placed.call("recipes", "check", RECIPE).code
        == placed.call("tools", "check", TOOLS).code
        == 0
    )

    def run(path: str) -> Done:
        model = placed.script(calls(("read_file", {"path": path})), say("built"), say("summed up"))
        inputs = ("--input", "feature=x", "--input", "folder=src")
        return placed.call(
            "run", "--sandbox", "off", "--recipe", "small-feature", *inputs, "--model", model
        )

    for trusts in (("recipes", "trust"), ("tools", "trust")):
        assert run("src/a.txt").code in (1, 2)
        assert placed.call(*trusts).code == 0
    done = run("src/a.txt")
    assert (done.code, done.out) == (0, "built\n\nsummed up\n")
    assert run("flow.yaml").code == 4
    (read,) = results(placed.log())
    assert "this tool may read only src/**" in read["error"]["message"]


def test_nothing_is_written_over(placed: Product) -> None:
    (placed.workspace / ".codeagent/tools").mkdir(parents=True)
    (placed.workspace / TOOLS).write_text("mine")
    done = placed.call("recipes", "import", "flow.yaml", "--to", ".codeagent")
    assert done.code == 2 and f"{TOOLS} cannot be written: it is already there" in done.err
    assert (
        files(placed) == {"flow.yaml", TOOLS} and (placed.workspace / TOOLS).read_text() == "mine"
    )


def test_nothing_is_written_through_a_link_or_outside_the_workspace(placed: Product) -> None:
    (placed.home / "other").mkdir()
    (placed.workspace / ".codeagent").symlink_to(placed.home / "other")
    for folder, said in (
        (".codeagent", "cannot be written"),
        ("../home", "a folder of the workspace"),
    ):
        done = placed.call("recipes", "import", "flow.yaml", "--to", folder)
        assert done.code == 2 and said in done.err
    assert list((placed.home / "other").iterdir()) == []


def test_a_part_without_counterpart_has_to_be_accepted(placed: Product) -> None:
    text = CHAIN.replace("  done:", "  extra: {type: step, command: ls, on_success: done}\n  done:")
    (placed.workspace / "flow.yaml").write_text(
        text.replace("on_success: done\n    on", "on_success: extra\n    on")
    )
    done = placed.call("recipes", "import", "flow.yaml", "--to", ".codeagent")
    assert done.code == 2 and files(placed) == {"flow.yaml"}
    assert "a step of type step; only an agent's with a prompt has one" in done.err
    assert "--partly writes it anyway" in done.err
    assert placed.call("recipes", "import", "flow.yaml", "--to", ".codeagent", "--partly").code == 0
    assert files(placed) == {"flow.yaml", ".codeagent/commands/review-chain.yaml"}


def test_a_restriction_that_cannot_hold_here_stops_it(placed: Product) -> None:
    text = CODING.replace("commands: [git log, make]", "paths: [src/**]")
    (placed.workspace / "flow.yaml").write_text(text)
    done = placed.call("recipes", "import", "flow.yaml", "--to", ".codeagent")
    assert done.code == 2 and files(placed) == {"flow.yaml"}
    assert "it does not apply to bash" in done.err and "nothing was written" in done.err


def test_broken_yaml_is_an_error_with_its_line(placed: Product) -> None:
    (placed.workspace / "flow.yaml").write_text(CODING + "  - name: [\n")
    done = placed.call("recipes", "import", "flow.yaml")
    assert done.code == 2 and done.out == "" and "flow.yaml:46: it is not YAML" in done.err
