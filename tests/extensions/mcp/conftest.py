"""A workspace with a product to run in it."""

from tests.e2e.conftest import product as product
