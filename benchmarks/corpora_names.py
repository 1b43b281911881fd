"""`python -m benchmarks.corpora_names PLACE …`: how many files would ask, by name, and how long it
takes to tell.

A place is a folder, or an archive of a package. With `--known FILE` it prints which of the names in
FILE, one a line, would not ask. Neither may come from the collections that `make names` reads: they
would measure themselves.
"""

import argparse
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from codeagent.core.paths import host_reason, installed_in, watched

_MOST_SHOWN = 8
_PATHS = 50_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", type=Path)
    parser.add_argument("--known", type=Path)
    asked = parser.parse_args()
    started = time.perf_counter()
    host_reason("Makefile")
    host_reason("a.config.b")
    print(f"first use: {(time.perf_counter() - started) * 1000:.1f} ms")
    if asked.known:
        names = asked.known.read_text(encoding="utf-8").split()
        missed = [name for name in names if host_reason(name) is None]
        print(
            f"{asked.known}: {len(names) - len(missed)} of {len(names)} ask; not: {' '.join(missed)}"
        )
    every: list[str] = []
    for place in asked.places:
        paths = [path for path in _paths(place) if installed_in(path) is None]
        asking = [path for path in paths if host_reason(path) is not None]
        share = 100 * len(asking) / max(len(paths), 1)
        print(
            f"{place.name}: {len(asking)} of {len(paths)} files ask, {share:.2f} %: {' '.join(asking[:_MOST_SHOWN])}"
        )
        every += paths
    if every:
        sample = (every * (_PATHS // len(every) + 1))[:_PATHS]
        started = time.process_time()
        found = sum(map(watched, sample))
        took = time.process_time() - started
        print(
            f"{_PATHS:,} paths, {found} watched: {took * 1000:.0f} ms, {took / _PATHS * 1e6:.1f} us each"
        )
    return 0


def _paths(place: Path) -> Iterator[str]:
    """Yield the paths in a folder or an archive; an archive's first folder is left out."""
    if place.is_file():
        with tarfile.open(place) as archive:
            yield from (
                one.name.partition("/")[2] for one in archive if one.isfile() and "/" in one.name
            )
        return
    for folder, _, files in os.walk(place):
        yield from (os.path.relpath(Path(folder) / name, place) for name in files)


if __name__ == "__main__":
    raise SystemExit(main())
