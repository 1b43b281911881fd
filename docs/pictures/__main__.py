"""Draws the pictures of the documentation: `make pictures`, or `make pictures NAMES="screen
board"` for some of them."""

import os
import sys
from pathlib import Path

from docs.pictures import pages, screens, terminals

IMAGES = Path(__file__).parents[1] / "images"
PICTURES = {**screens.PICTURES, **pages.PICTURES, **terminals.PICTURES}
"""What draws each picture, by the name of its file."""


def main(names: list[str]) -> None:
    os.environ["COLORTERM"] = "truecolor"
    if unknown := sorted(set(names) - set(PICTURES)):
        sys.exit(f"unknown picture: {', '.join(unknown)}; the pictures are {', '.join(PICTURES)}")
    for name in names or PICTURES:
        (IMAGES / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")
        print(f"wrote docs/images/{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
