"""The workspace with its tools, for every test of this folder."""

from tests.toolbox import box as box
