"""A workspace with a product to run in it."""

from pathlib import Path

import pytest

from tests.e2e.product import Product


@pytest.fixture
def product(tmp_path: Path) -> Product:
    workspace, home = tmp_path / "work", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (workspace / name).write_text(f"this is {name}\nsecond line\n")
    return Product(workspace, home)
