"""Bytes of the definitions that a model gets for the operations of published API documents."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median, quantiles

from benchmarks.measure import Figure
from codeagent.core.tool import ToolDefinition
from codeagent.extensions.openapi.document import ApiDocument
from codeagent.extensions.openapi.plan import plan_of
from codeagent.extensions.openapi.reading import BadDocument
from codeagent.tools.cutting import cut_definition, definition_bytes
from codeagent.tools.schema import Definitions
from tests.extensions.openapi.real_documents import NotFetched, fetched

LONGEST = Definitions().longest


def figures() -> Iterator[Figure]:
    """The definitions of every operation, as they are sent and as the documents have them."""
    try:
        paths = sorted(
            path
            for path in (fetched() / "documents").rglob("*")
            if path.suffix in (".json", ".yaml")
        )
    except NotFetched as error:
        yield Figure("definitions of operations", "not measured", str(error), None, "")
        return
    sizes: list[int] = []
    sent: list[int] = []
    for one in chain.from_iterable(map(_definitions, paths)):
        size = definition_bytes(one)
        sizes.append(size)
        sent.append(size if size <= LONGEST else definition_bytes(cut_definition(one, LONGEST)))
    said = f"bytes; {len(sizes):,} operations of {len(paths)} documents"
    yield Figure("a definition, median", f"{median(sent):,.0f}", said, None, "")
    about = f"bytes; {_p95(sizes):,.0f} uncut, the largest {max(sent):,} of {max(sizes):,}"
    yield Figure("… p95", f"{_p95(sent):,.0f}", about, None, f"<= {LONGEST:,}")


def _p95(values: list[int]) -> float:
    return quantiles(values, n=20)[-1]


def _definitions(path: Path) -> Iterator[ToolDefinition]:
    try:
        document = ApiDocument.read(path.read_bytes())
        operations, _ = document.operations()
    except BadDocument:
        return
    for operation in operations:
        try:
            plan = plan_of(document, operation)
        except BadDocument:
            continue
        yield ToolDefinition(operation.name, plan.description, plan.schema)
