"""`python -m benchmarks [NAME …]`: print each figure beside its floor; without names, all of them."""

import importlib
import sys

from benchmarks.measure import Figure

GROUPS = ("startup", "turns", "commands", "search", "checkpoints", "jobs", "roads", "screen")


def main(names: list[str]) -> int:
    unknown = set(names) - set(GROUPS)
    if unknown:
        print(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    print(f"{'figure':44} {'ours':>12} {'ratio':>7}  {'target':22} floor")
    for group in names or GROUPS:
        for figure in importlib.import_module(f"benchmarks.{group}").figures():
            print(_row(figure), flush=True)
    return 0


def _row(figure: Figure) -> str:
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    return f"{figure.name:44} {figure.ours:>12} {ratio:>7}  {figure.target:22} {figure.floor}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
