"""Documents that people publish, and a mock server that checks what it is sent against one of them."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from codeagent.extensions.openapi.document import ApiDocument
from codeagent.extensions.openapi.plan import plan_of
from codeagent.extensions.openapi.reading import BadDocument
from codeagent.extensions.openapi.source import listed_operations, longest_name
from codeagent.tools.schema_check import problems_of
from codeagent.workspace.files import LocalWorkspace
from tests.effort import FACTOR, part
from tests.extensions.openapi.real_documents import fetched_or_skip
from tests.extensions.openapi.test_calls import opened

_SAMPLES = 2
"""Operations of one document that are looked at in full."""
_BAD_OPERATION = ("which is not among its parameters", "it has more than 500 parameters")
"""What some documents get wrong, or have too much of."""


@pytest.fixture(scope="module")
def fetched() -> Path:
    return fetched_or_skip()


@pytest.mark.soak(tried=600, row="API documents")
def test_every_published_document_is_read_whole_or_refused_with_the_reason(fetched: Path) -> None:
    counted: Counter[str] = Counter()
    files = sorted(
        path for path in (fetched / "documents").rglob("*") if path.suffix in (".json", ".yaml")
    )
    for path in part(files, 40):
        try:
            document = ApiDocument.read(path.read_bytes())
        except BadDocument as error:
            assert str(error) == "it is Swagger 2.0; convert it to OpenAPI 3 first", path
            counted["refused"] += 1
            continue
        operations, problems = document.operations(longest_name("api"))
        assert problems == (), path
        names = [tool.name for tool in listed_operations("api", operations, ())]
        assert len(set(names)) == len(names) == len(operations) + 1
        for one in operations[:: max(1, len(operations) // _SAMPLES)]:
            try:
                plan = plan_of(document, one)
            except BadDocument as error:
                assert str(error).endswith(_BAD_OPERATION), (path, one.name)
                counted["operations refused"] += 1
                continue
            assert problems_of(plan.schema) == (), (path, one.name)
        counted[document.version[:3]] += 1
    if FACTOR:
        assert counted["3.0"] >= 500 and counted["3.1"] >= 10 and counted["refused"] > 0
        assert counted["operations refused"] <= 20
    assert max(path.stat().st_size for path in files) > 5_000_000


@asynccontextmanager
async def mocking(fetched: Path, document: Path) -> AsyncIterator[str]:
    """The mock server's host and port, while it runs."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = (fetched / "node_modules/.bin/prism", "mock", "-p", str(port), document)
    streams = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
    process = await asyncio.create_subprocess_exec(*command, **streams)
    assert process.stdout is not None
    draining = None
    try:
        while line := await process.stdout.readline():
            if b"is listening" in line:
                break
        draining = asyncio.create_task(process.stdout.read())
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()
        if draining is not None:
            await draining


def example(schema: Any, formats: dict[str, str]) -> Any:
    """A value that fits the schema."""
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "anyOf" in schema:
        return example(schema["anyOf"][0], formats)
    if "allOf" in schema:
        return {
            name: value
            for part in schema["allOf"]
            for name, value in example(part, formats).items()
        }
    match schema.get("type"):
        case "object":
            return {
                name: example(one, formats) for name, one in schema.get("properties", {}).items()
            }
        case "array":
            return [example(schema.get("items", {}), formats)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case _:
            return formats.get(schema.get("format", ""), "abc")


async def test_a_server_that_checks_its_requests_takes_every_operation(
    fetched: Path, tmp_path: Path
) -> None:
    [path] = (fetched / "documents").rglob("3.1/json/train-travel.json")
    formats = {
        "uuid": "efdbb9d1-02c2-4bc3-afb7-6788d8782b1e",
        "date-time": "2026-02-01T09:00:00Z",
        "uri": "https://a.example/",
    }
    document = ApiDocument.read(path.read_bytes())
    async with mocking(fetched, path) as place:
        calls = await opened(
            document, place, LocalWorkspace(tmp_path), credentials={"OAuth2": "TOKEN"}
        )
        statuses = {}
        for tool in calls.source.list().tools[:-1]:
            schema = calls.source.get(tool.name).schema
            statuses[tool.name] = (
                await calls.result(tool.name, **example(schema, formats))
            ).details["status"]
    assert len(statuses) == 7 and set(statuses.values()) <= {200, 201, 204}
