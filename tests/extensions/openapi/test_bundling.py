"""A document in several files: those in its folder are joined, and nothing else is read."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from codeagent.extensions.openapi.bundling import FILES, joined
from codeagent.extensions.openapi.document import ApiDocument
from codeagent.extensions.openapi.plan import plan_of
from codeagent.extensions.openapi.reading import BadDocument, read_text

_POINTS_AT: dict[str, Any] = {
    "inside": "schemas/user.yaml",
    "part": "schemas/all.json#/Named~1User",
    "up": "schemas/../schemas/user.yaml",
    "encoded": "schemas/a%20b.yaml",
    "linked": "linked.yaml",
}


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return folder / "api.json"


def document(reference: str, **more: Any) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": {"$ref": reference}}}}
    return {"openapi": "3.1.0", "paths": {"/a": {"post": {"requestBody": body}}}, **more}


def body_of(path: Path) -> Any:
    """The schema of the body, of the document as it is kept."""
    kept = json.dumps(joined(read_text(path.read_bytes()), path)).encode()
    found = ApiDocument.read(kept)
    [operation], _ = found.operations()
    return plan_of(found, operation).schema["properties"]["body"]


@pytest.mark.parametrize("reference", _POINTS_AT.values(), ids=_POINTS_AT.keys())
def test_a_reference_to_a_file_in_the_folder_leads_to_what_is_there(
    tmp_path: Path, reference: str
) -> None:
    user = {"type": "object", "properties": {"name": {"type": "string"}}}
    files = dict.fromkeys(("schemas/user.yaml", "schemas/a b.yaml"), user)
    path = write(
        tmp_path,
        {"api.json": document(reference), **files, "schemas/all.json": {"Named/User": user}},
    )
    (tmp_path / "linked.yaml").symlink_to("schemas/user.yaml")
    assert body_of(path) == user


def test_files_refer_to_each_other_to_themselves_and_back_to_the_document(tmp_path: Path) -> None:
    one = "One: {type: object, properties: {two: {$ref: '../two.yaml'}, own: {$ref: '#/Own'}}}\nOwn: {type: boolean}"
    files = {
        "api.json": document(
            "a/b/one.yaml#/One", components={"schemas": {"Id": {"type": "integer"}}}
        ),
        "a/b/one.yaml": one,
        "a/two.yaml": {"type": "array", "items": {"$ref": "../api.json#/components/schemas/Id"}},
    }
    assert body_of(write(tmp_path, files)) == {
        "type": "object",
        "properties": {
            "two": {"type": "array", "items": {"type": "integer"}},
            "own": {"type": "boolean"},
        },
    }


def test_files_that_refer_to_each_other_in_a_circle_are_read_once(tmp_path: Path) -> None:
    one = {"type": "object", "properties": {"next": {"$ref": "two.json"}}}
    two = {"type": "object", "properties": {"next": {"$ref": "one.json"}}}
    path = write(tmp_path, {"api.json": document("one.json"), "one.json": one, "two.json": two})
    assert set(joined(read_text(path.read_bytes()), path)[FILES]) == {"one.json", "two.json"}
    assert "above" in json.dumps(body_of(path))


def test_a_path_can_be_a_file_of_its_own(tmp_path: Path) -> None:
    root = {"openapi": "3.1.0", "paths": {"/a": {"$ref": "paths/a.yaml"}}}
    path = write(tmp_path, {"api.json": root, "paths/a.yaml": "get: {summary: Gets a}"})
    [operation], problems = ApiDocument(joined(root, path)).operations()
    assert (operation.name, operation.summary, problems) == ("get_a", "Gets a", ())


@pytest.mark.parametrize(
    "reference",
    [
        "../outside.yaml",
        "a/../../outside.yaml",
        "%2e%2e/outside.yaml",
        "/etc/passwd",
        "file:///etc/passwd",
        "https://evil.example/x.yaml",
        "//evil.example/x.yaml",
        "..\\outside.yaml",
        "missing.yaml",
        "link.yaml",
        "hidden.yaml",
        "pipe",
        "folder",
        "inside.yaml#anchor",
        "inside.yaml?x",
    ],
)
def test_a_reference_to_anything_else_is_not_read_and_stops_only_its_operation(
    tmp_path: Path, reference: str
) -> None:
    folder = tmp_path / "folder-of-it"
    path = write(folder, {"api.json": document(reference), "inside.yaml": "{}", "folder/x": ""})
    (tmp_path / "outside.yaml").write_text("type: string")
    (folder / "link.yaml").symlink_to("../outside.yaml")
    (folder / ".env").write_text("type: string")
    (folder / "hidden.yaml").symlink_to(".env")
    os.mkfifo(folder / "pipe")
    with pytest.raises(BadDocument, match=r"another document, .*; put it beside a local file"):
        body_of(path)


def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path) -> None:
    for content, name, why in (
        ("a: [", "more.yaml", "more.yaml, which it refers to: it is not YAML: line"),
        ("A=1", ".env", r"\.env looks like a file of secrets"),
    ):
        path = write(tmp_path, {"api.json": document(name), name: content})
        with pytest.raises(BadDocument, match=why):
            joined(read_text(path.read_bytes()), path)
