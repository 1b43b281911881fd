"""Tools that make requests, through the product: configured, turned on, asked about, called."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codeagent.config.kept import KeptRulesFile
from tests.e2e.product import Done, Event, Product, Turn, calls, results, say, text_of
from tests.extensions.openapi.serving_api import Api, serving_api
from tests.servers import Turn as Answer
from tests.servers import openai_server

SECRET = "t0ken-with-12345"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with serving_api() as running:
        yield running


def configure(product: Product, text: str) -> None:
    folder = product.home / "config/codeagent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def add(product: Product, api: Api, *more: str) -> Done:
    return product.call(
        "tools", "add", "openapi", f"{api.url}openapi.json", "--private", "--name", "echo", *more
    )


def answers(product: Product, turns: list[Turn], *arguments: str) -> list[Event]:
    """Run these turns; the results of their calls in the order of the calls."""
    before = set(product.sessions)
    product.run(product.script(*turns), *arguments)
    [session] = set(product.sessions) - before
    events = [json.loads(line) for line in (session / "events.jsonl").read_text().splitlines()]
    return sorted(results(events), key=lambda event: str(event["call_id"]))


def large(operations: int) -> str:
    paths = {
        f"/things/{at}": {
            "get": {
                "summary": f"Get {at}",
                "tags": [f"t{at % 10}"],
                "parameters": [
                    {
                        "name": "q",
                        "in": "query",
                        "schema": {"type": "string", "description": "x" * 200},
                    }
                ],
            }
        }
        for at in range(operations)
    }
    root = {
        "openapi": "3.1.0",
        "info": {"title": "Large"},
        "servers": [{"url": "https://api.example.org"}],
    }
    return json.dumps({**root, "paths": paths})


def test_a_page_is_fetched_with_a_rule_and_a_host_without_one_is_not(
    product: Product, api: Api
) -> None:
    configure(product, f'[toolsets]\noffer = ["web"]\n[web]\nprivate_hosts = ["{api.place}"]\n')
    turns = [
        calls(("toolset_use", {"name": "web"})),
        calls(
            ("web_fetch", {"url": f"{api.url}query?text=hello"}),
            ("web_fetch", {"url": "https://example.org/"}),
            ("web_fetch", {"url": "http://169.254.169.254/latest/meta-data/"}),
        ),
        say("done"),
    ]
    allow = (f"web_fetch(network: {api.place})", "web_fetch(network: 169.254.*)")
    _, fetched, unasked, near = answers(
        product, turns, *(word for rule in allow for word in ("--allow", rule))
    )
    assert '{"text":"hello","flag":false,"many":null}' in text_of(fetched)
    assert unasked["error"]["kind"] == "denied" and "not public" in near["error"]["message"]


def test_a_kept_rule_is_suspended_once_a_page_was_read_also_after_a_resume(
    product: Product, api: Api
) -> None:
    configure(product, f'[toolsets]\nuse = ["web"]\n[web]\nprivate_hosts = ["{api.place}"]\n')
    KeptRulesFile(product.home / "config/codeagent", product.workspace, lambda rule: None).keep(
        f"http_request(network: GET {api.place})"
    )
    request = calls(("http_request", {"url": f"{api.url}query?text=x"}))
    turns = [request, calls(("http_request", {"url": f"{api.url}query?text=y"})), say("done")]
    first, second = answers(product, turns)
    assert (
        first["rule"] == f"http_request(network: GET {api.place})"
        and second["error"]["kind"] == "denied"
    )
    asked = next(event for event in product.log() if event["type"] == "approval.requested")
    assert f"is suspended: the model has since read text from {api.place}" in asked["reason"]
    [session] = product.sessions
    product.run(product.script(request, say("done")), "--resume", session.name)
    assert results(product.log())[2]["error"]["kind"] == "denied"


def test_a_document_is_added_used_and_removed(product: Product, api: Api) -> None:
    done = add(product, api)
    assert (done.code, done.err) == (0, "") and "requests go to 127.0.0.1" in done.out
    model = product.script(
        calls(("toolset_list", {"name": "echo", "search": "json"})),
        calls(("toolset_use", {"name": "echo", "tools": ["echo__takes_json_json_post"]})),
        calls(("echo__takes_json_json_post", {"body": {"name": "ada", "tags": ["x"]}})),
        say("done"),
    )
    product.run(model, "--allow", "echo__*")
    listed, _, answered = results(product.log())
    assert "echo__takes_json_json_post: Takes Json" in text_of(listed)
    assert '{"name":"ada","tags":["x"],"parent":null,"price":null}' in text_of(answered)
    assert product.call("tools", "remove", "echo").code == 0
    assert product.call("tools", "remove", "echo").code == 2


def test_a_secret_reaches_the_api_and_nothing_that_is_kept_or_printed(
    product: Product, api: Api
) -> None:
    assert add(product, api, "--only", "tag:secret", "--secret", "HTTPBearer=ECHO_KEY").code == 0
    model = product.script(
        calls(("toolset_use", {"name": "echo"})),
        calls(("echo__bearer_bearer_get", {})),
        say("done"),
    )
    arguments = (
        "run",
        "go",
        "--model",
        model,
        "--sandbox",
        "off",
        "--allow",
        "echo__*",
        "--output",
        "jsonl",
    )
    done = product.call(*arguments, env={**product.environment, "ECHO_KEY": SECRET})
    assert '{"got":"[secret ECHO_KEY]"}' in text_of(results(product.log())[1])
    assert SECRET not in done.out + done.err
    kept = [
        path
        for path in product.home.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert kept == []


def test_a_call_is_denied_where_nobody_is_asked_and_a_rule_for_the_document_denies_all(
    product: Product, api: Api
) -> None:
    assert add(product, api).code == 0
    turns = [
        calls(("toolset_use", {"name": "echo", "tools": ["echo__query_query_get"]})),
        calls(("echo__query_query_get", {"text": "x"})),
        say("done"),
    ]
    assert answers(product, turns)[1]["error"]["kind"] == "denied"
    assert (
        answers(product, turns, "--allow", "echo__*", "--deny", "echo__query*")[1]["error"]["kind"]
        == "denied"
    )


def offered(product: Product, *turns: Answer) -> list[Any]:
    """What each request of a run offers the model."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = openai_server(turns)
    fake = asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    try:
        done = product.run("openai/fake", "--api-base", fake.base_url)
        assert done.code == 0, done.err
        return [request.body["tools"] for request in fake.requests]
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_thousand_operations_cost_the_first_request_nothing_and_are_turned_on_by_name(
    product: Product,
) -> None:
    (product.workspace / "large.json").write_text(large(1_000))
    assert (
        product.call("tools", "add", "openapi", "large.json", "--host", "api.example.org").code == 0
    )
    some = [f"large__get_things_{at}" for at in range(30)]
    first, refused, last, _ = offered(
        product,
        Answer(calls=(("toolset_use", {"name": "large"}),)),
        Answer(calls=(("toolset_use", {"name": "large", "tools": some}),)),
        Answer(calls=(("toolset_list", {"search": "things/999"}),)),
        Answer("done"),
    )
    assert "large__" not in json.dumps(first) and len(json.dumps(first)) < 8_192
    assert refused == first and last[: len(first)] == first
    assert [one["function"]["name"] for one in last[len(first) :]] == some
    whole, named, found = results(product.log())
    assert "has 1001 tools" in whole["error"]["message"] and named["error"] is None
    assert "large__get_things_999" in text_of(found)
    listed = json.loads(product.call("tools", "sets", "--json").out)
    assert [(one["name"], one["tools"]) for one in listed] == [("large", 1001)]


def test_a_document_of_the_project_waits_for_trust(product: Product, api: Api) -> None:
    assert add(product, api, "--project", "--only", "id:query_query_get").code == 0
    turns = [
        calls(("toolset_use", {"name": "echo"})),
        calls(("echo__query_query_get", {"text": "x"})),
        say("done"),
    ]
    used, called = answers(product, turns)
    assert used["error"]["kind"] == called["error"]["kind"] == "not_found"
    assert "not trusted as they are now: echo" in product.run(product.script(say("done"))).err
    assert "echo (OpenAPI)" in product.call("tools", "trust").out
    assert '"text":"x"' in text_of(answers(product, turns, "--allow", "echo__*")[1])
    record = product.workspace / ".codeagent/openapi/echo.json"
    record.write_text(record.read_text().replace(api.place, "127.0.0.1:1"))
    assert answers(product, turns)[0]["error"]["kind"] == "not_found"
    assert (
        ".codeagent/openapi" in product.call("tools", "remove", "echo").out and not record.exists()
    )


def test_a_record_that_cannot_be_used_is_reported_and_everything_else_works(
    product: Product,
) -> None:
    (product.workspace / "shop.yaml").write_text(SHOP)
    for name in ("broken", "shared", "whole"):
        added = product.call(
            "tools", "add", "openapi", "shop.yaml", "--host", "shop.example", "--name", name
        )
        assert added.code == 0
    own, theirs = (
        product.home / "config/codeagent/openapi",
        product.workspace / ".codeagent/openapi",
    )
    (own / "broken.json").write_text("{}")
    (own / "shared.json").chmod(0o644)
    theirs.mkdir(parents=True)
    os.mkfifo(theirs / "pipe.json")
    done = product.run(product.script(calls(("toolset_list", {})), say("done")), "--trust-project")
    assert done.code == 0 and "whole" in text_of(results(product.log())[0])
    listed = product.call("tools", "list", "--problems", "--trust-project").out
    for problem in ("broken.json: origin: Field required", "chmod 600", "pipe.json"):
        assert problem in listed
    for name in ("broken", "shared", "pipe"):
        assert product.call("tools", "remove", name).code == 0


def test_a_document_that_changed_on_disk_is_not_used(product: Product, api: Api) -> None:
    assert add(product, api).code == 0
    kept = product.home / "config/codeagent/openapi/echo.document.json"
    kept.write_text(kept.read_text().replace("/query", "/other"))
    product.run(product.script(calls(("toolset_use", {"name": "echo"})), say("done")))
    assert "not the document that was added" in results(product.log())[0]["error"]["message"]


SHOP = """\
openapi: 3.1.0
info: {title: The Shop}
servers: [{url: https://shop.example/v1}]
paths:
  /things/{id}:
    get: {responses: {}}
  /other:
    get: {parameters: [{$ref: 'more.yaml#/x'}], responses: {}}
"""


def test_a_document_is_checked_without_being_added(product: Product) -> None:
    (product.workspace / "shop.yaml").write_text(SHOP)
    done = product.call("tools", "check", "shop.yaml")
    assert (done.code, done.out) == (
        0,
        "shop.yaml: OpenAPI 3.1.0, 2 operations of The Shop; requests go to https://shop.example/v1\n",
    )
    assert (
        "shop.yaml: GET /things/{id}: its path has id, which is not among its parameters"
        in done.err
    )
    assert "shop.yaml: GET /other: it refers to another document" in done.err
    assert "warning: shop.yaml: info.version: Field required" in done.err


def test_a_document_is_added_with_the_files_beside_it(product: Product, api: Api) -> None:
    folder = product.workspace / "api"
    folder.mkdir()
    (folder / "shop.yaml").write_text(
        SHOP.replace("{responses: {}}", "{parameters: [{$ref: 'id.yaml'}]}")
    )
    (folder / "id.yaml").write_text("name: id\nin: path\nschema: {type: integer}")
    (folder / "more.yaml").write_text("x: {name: text, in: query}")
    where = ("--server", api.url, "--host", api.place, "--private")
    assert product.call("tools", "add", "openapi", "api/shop.yaml", *where).code == 0
    assert "/x-codeagent" not in product.call("tools", "check", "api/shop.yaml").err
    (folder / "id.yaml").unlink()
    turns = [
        calls(("toolset_use", {"name": "the-shop"})),
        calls(("the-shop__get_things_id", {"id": 7})),
        say("done"),
    ]
    assert "HTTP 404" in answers(product, turns, "--allow", "the-shop__*")[1]["error"]["message"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            (),
            "its server is https://shop.example/v1; if requests may go there, add --host shop.example",
        ),
        (("--host", "other.example"), "not among the hosts pinned for it; add --host shop.example"),
        (("--host", "shop.example", "--only", "tag:none"), "no operation matches tag:none"),
        (("--host", "shop.example", "--only", "none"), "is not a filter"),
        (("--host", "shop.example", "--secret", "key=X"), "the document's schemes are none"),
        (("--host", "shop.example", "--name", "Bad Name"), "cannot be the name of a document"),
        (("--host", "https://shop.example"), "is not a host"),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_is_kept(
    product: Product, more: tuple[str, ...], said: str
) -> None:
    (product.workspace / "shop.yaml").write_text(SHOP)
    done = product.call("tools", "add", "openapi", "shop.yaml", *more)
    assert (
        done.code == 2
        and said in done.err
        and done.err.startswith("codeagent: ")
        and done.out == ""
    )
    assert not Path(product.home / "config/codeagent/openapi").exists()


def test_a_document_cannot_take_the_name_of_another_set_or_document(product: Product) -> None:
    (product.workspace / "shop.yaml").write_text(SHOP)
    add_shop = ("tools", "add", "openapi", "shop.yaml", "--host", "shop.example", "--name")
    assert "another toolset named web" in product.call(*add_shop, "web").err
    assert product.call(*add_shop, "shop").code == 0
    assert "codeagent tools remove shop removes it first" in product.call(*add_shop, "shop").err


def test_a_near_address_is_not_fetched_from_without_a_word_of_the_user(
    product: Product, api: Api
) -> None:
    done = product.call("tools", "add", "openapi", f"{api.url}openapi.json", "--name", "echo")
    assert (
        done.code == 2
        and "not public, so nothing was sent; give --private if you mean it" in done.err
    )


_OPENED = """
import sys
opened = []
sys.addaudithook(lambda name, args: name == "open" and "/openapi/" in str(args[0]) and opened.append(str(args[0])))
from pathlib import Path
from codeagent.config.local_environment import LocalEnvironment
from codeagent.app.describe import describe_tools
from codeagent.config.checking import checked
from codeagent.config.settings import Settings
work, home = map(Path, sys.argv[1:])
place = LocalEnvironment(work, home / "state", {}, config_dir=home / "config/codeagent")
settings = checked(Settings, {"toolsets": {"offer": ["web"]}})
tools = describe_tools(place, settings)
print(*(path.rpartition("/")[2] for path in opened if path.endswith(".json")))
print(sum(len(one.tools) for one in tools.toolsets.available.all().values()), *sys.modules)
"""


def test_what_is_configured_and_not_used_loads_nothing_of_it(product: Product) -> None:
    (product.workspace / "large.json").write_text(large(1_000))
    assert (
        product.call("tools", "add", "openapi", "large.json", "--host", "api.example.org").code == 0
    )
    done = product.call_in(
        ROOT, sys.executable, "-c", _OPENED, str(product.workspace), str(product.home)
    )
    assert done.err == ""
    opened, tools, *modules = done.out.split()
    assert (opened, tools) == ("large.json", str(1_000 + 1 + 2))
    late = (
        "codeagent.extensions.openapi.document",
        "codeagent.extensions.openapi.source",
        "codeagent.extensions.openapi.tool",
        "codeagent.extensions.web.web_set",
        "codeagent.net",
        "pycurl",
        "bs4",
        "yaml",
    )
    assert [module for module in modules if module.startswith(late)] == []
