"""Resources and prompts of servers in what the user types."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeagent.config.local_environment import LocalEnvironment
from codeagent.core.runtime import Mentioned
from codeagent.core.tool import Failed
from codeagent.extensions.mcp.host import ServerHost
from codeagent.extensions.mcp.mentions import offered_texts, read_mentions
from codeagent.extensions.mcp.servers import McpServers
from tests.e2e.product import Product, of, say
from tests.extensions.mcp.hostile import EVIL
from tests.extensions.mcp.real_servers import servers_or_skip
from tests.extensions.mcp.setting import hostile, serving
from tests.extensions.mcp.test_real_servers import node
from tests.fakes import put
from tests.table import for_each

DOCS = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    match said["method"]:
        case "initialize":
            version = said["params"]["protocolVersion"]
            server = {"name": "docs", "version": "1"}
            able = {"resources": {}, "prompts": {}}
            answer = {"protocolVersion": version, "capabilities": able, "serverInfo": server}
        case "resources/read":
            answer = {"contents": [{"uri": "guide", "text": "one\\ntwo"}]}
        case "prompts/list":
            answer = {"prompts": [{"name": "review", "arguments": [{"name": "pr"}]}]}
        case "prompts/get":
            text = f'review {said["params"]["arguments"]["pr"]} with care'
            answer = {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        case _:
            answer = {"tools": [], "resources": []}
    if "id" in said:
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": answer}), flush=True)
"""
REVIEW = {"name": "review", "arguments": [{"name": "pr", "required": True}, {"name": "tone"}]}


@dataclass
class Server:
    """A server with one prompt, and any resource that is asked for."""

    name: str = "github"
    text: str = "the text"
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    listed: Sequence[Mapping[str, Any]] = ()

    def list(self) -> Any:
        return SimpleNamespace(state="ready")

    async def pages(self, kind: str) -> Sequence[Mapping[str, Any]]:
        return [REVIEW, *self.listed] if kind == "prompts" else self.listed

    async def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "resources/read":
            self.asked.append((params["uri"], {}))
            return {"contents": [{"uri": params["uri"], "text": self.text}]}
        assert method == "prompts/get"
        self.asked.append((params["name"], dict(params["arguments"])))
        said = {"type": "text", "text": self.text}
        return {
            "messages": [{"role": "user", "content": said}, {"role": "assistant", "content": said}]
        }


@for_each(
    ("text", "uris"),
    [
        ("compare @github:issue://1 with (@github:file:///a.txt).", ["issue://1", "file:///a.txt"]),
        ("@github:a @github:a", ["a"]),
        ("write to ada@github:a or @other:a or @github or `x@github:a`", []),
        ("nothing", []),
    ],
)
async def test_each_resource_that_a_prompt_names_is_read_once(text: str, uris: list[str]) -> None:
    server = Server()
    read, sizes = await read_mentions(text, [server])
    assert [uri for uri, _ in server.asked] == uris
    assert read.count("the text") == len(uris)
    assert [*sizes] == [f"github:{uri}" for uri in uris]


async def test_a_resource_is_bounded_and_cannot_hide_anything() -> None:
    heard: list[str] = []
    read, _ = await read_mentions("@github:a and @other:b", [Server()], heard.append)
    assert heard == ["github"]
    read, _ = await read_mentions("@github:a", [Server(text=EVIL + "x" * 1_000_000)])
    assert len(read) < 50_000
    assert "\\x1b]0;owned" in read and "\x1b" not in read and "\u202e" not in read


async def test_more_than_five_resources_are_refused() -> None:
    with pytest.raises(Failed, match="5 resources"):
        await read_mentions(" ".join(f"@github:{number}" for number in range(6)), [Server()])


def sizes(found: Mentioned) -> dict[str, str]:
    return {} if found.note is None else {one.name: one.about for one in found.note.attached}


async def test_the_size_of_a_resource_is_known_once_it_was_read_or_its_server_says_it(
    tmp_path: Path,
) -> None:
    listed = [{"uri": "a", "size": 4000}, {"uri": "b", "size": 10**4000}]
    server = Server(text="one\ntwo", listed=listed)
    local = LocalEnvironment(tmp_path, tmp_path / "state", {}, config_dir=tmp_path / "config")
    servers = McpServers(local, ServerHost(tmp_path, {}, tmp_path / "pins"))
    servers._sources = {"github": server}  # type: ignore[dict-item]  # it answers as one does
    text = "compare @github:a with @github:b, not with @other:c"
    assert sizes(await servers.mentioned(text, sending=False)) == {
        "github:a": "read when sent",
        "github:b": "read when sent",
    }
    assert len(await servers.texts("resource")) == 2
    assert sizes(await servers.mentioned(text, sending=False)) == {
        "github:a": "~1,000 tokens",
        "github:b": "read when sent",
    }
    assert server.asked == []  # nothing is read as long as the user writes
    await servers.mentioned("@github:b", sending=True)
    assert sizes(await servers.mentioned(text, sending=False)) == {
        "github:a": "~1,000 tokens",
        "github:b": "2 lines · ~10 tokens",
    }
    assert await servers.mentioned("@other:c", sending=True) == Mentioned()


async def test_too_many_resources_are_refused_while_the_user_writes(tmp_path: Path) -> None:
    local = LocalEnvironment(tmp_path, tmp_path / "state", {}, config_dir=tmp_path / "config")
    servers = McpServers(local, ServerHost(tmp_path, {}, tmp_path / "pins"))
    servers._sources = {"github": Server()}  # type: ignore[dict-item]  # it answers as one does
    many = " ".join(f"@github:{number}" for number in range(6))
    for sending in (False, True):
        found = await servers.mentioned(many, sending=sending)
        assert "at most 5 resources" in found.refusal and found.note is None


def test_a_prompt_of_a_server_is_read_without_any_mention_beside_it(product: Product) -> None:
    program = put(product.home, "docs.py", DOCS)
    entry = {"command": sys.executable, "args": [str(program)], "where": "machine"}
    put(product.home, "config/codeagent/mcp.json", json.dumps({"mcpServers": {"docs": entry}}))
    done = product.run(product.script(say("ok")), "--output", "jsonl", prompt="/docs:review 7")
    assert done.code == 0, done.err
    told = [json.dumps(one["message"]) for one in of(done.events, "message.added")]
    assert any("review 7 with care" in one for one in told)


def test_a_resource_goes_with_the_prompt_beside_its_files_and_into_forks_and_exports(
    product: Product,
) -> None:
    put(product.workspace, "a.txt", "from the file\n")
    program = put(product.home, "docs.py", DOCS)
    entry = {"command": sys.executable, "args": [str(program)], "where": "machine"}
    put(product.home, "config/codeagent/mcp.json", json.dumps({"mcpServers": {"docs": entry}}))
    done = product.run(
        product.script(say("ok")), "--output", "jsonl", prompt="compare @docs:guide with @a.txt"
    )
    assert done.code == 0, done.err
    (note,) = [
        one["message"] for one in of(done.events, "message.added") if "attached" in one["message"]
    ]
    assert [(one["name"], one["about"]) for one in note["attached"]] == [
        ("a.txt", "1 line · ~5 tokens"),
        ("docs:guide", "2 lines · ~12 tokens"),
    ]
    first, second = (part["text"] for part in note["content"])
    assert "from the file" in first and "> one\n> two" in second
    assert product.call("sessions", "fork", product.sessions[-1].name).code == 0
    for session in product.sessions:
        log = (session / "events.jsonl").read_text()
        assert '"name":"docs:guide"' in log.replace('": "', '":"')
        exported = product.call("sessions", "export", session.name, "--format", "html").out
        assert "docs:guide" in exported


@for_each(
    ("given", "arguments"),
    [
        ("pr=7", {"pr": "7"}),
        ("tone='very kind' pr=7", {"pr": "7", "tone": "very kind"}),
        ("7", {"pr": "7"}),
        ("7 be very kind", {"pr": "7", "tone": "be very kind"}),
        ("'7 and 8'", {"pr": "7 and 8"}),
    ],
)
async def test_a_prompt_of_a_server_takes_its_arguments_by_name_or_in_order(
    given: str, arguments: dict[str, str]
) -> None:
    server = Server()
    read, _ = await read_mentions(f"/github:review {given}", [server])
    assert server.asked == [("review", arguments)]
    assert read.endswith(
        "which the user asks for:\nthe text\n(said before by the assistant) the text"
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/github:review", "/github:review needs pr: write /github:review pr=… tone=…"),
        ("/github:other", "github has no prompt 'other'; it has review"),
        ("/github:review 'a", "cannot be read"),
    ],
)
async def test_what_cannot_be_asked_for_is_said(typed: str, said: str) -> None:
    with pytest.raises(Failed) as failed:
        await read_mentions(typed, [Server()])
    assert said in str(failed.value)


async def test_only_what_can_be_typed_is_offered() -> None:
    addresses = ("file:///a.txt", "has space", "ends.", EVIL, "x" * 1000, None, 7)
    resources = [
        {"uri": address, "title": "A", "description": f"About {EVIL}"} for address in addresses
    ]
    offered = await offered_texts(
        Server(listed=[*resources, {}, {"uri": [], "name": "x"}]), "resource"
    )
    assert [text.name for text in offered] == ["github:file:///a.txt"]
    assert "\x1b" not in offered[0].about and offered[0].about.startswith("About ")
    prompts = [{"name": name, "arguments": 7} for name in ("has space", EVIL, "plain")]
    offered = await offered_texts(Server(listed=prompts), "prompt")
    assert [(text.name, text.inputs) for text in offered] == [
        ("github:review", (("pr", ""), ("tone", ""))),
        ("github:plain", ()),
    ]


@for_each("listed", [7, "x", {}, ["x", 7, {"name": 7, "required": True}, {"required": True}]])
async def test_a_prompt_with_arguments_that_are_none_is_asked_for_without_any(listed: Any) -> None:
    server = Server(listed=[{"name": "odd", "arguments": listed}])
    assert (await read_mentions("/github:odd", [server]))[0].endswith(") the text")
    assert server.asked == [("odd", {})]


async def test_messages_that_are_none_are_left_out() -> None:
    class Odd(Server):
        async def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
            return {
                "messages": [
                    "x",
                    7,
                    None,
                    {"role": "user", "content": {"type": "text", "text": "good"}},
                ]
            }

    assert (await read_mentions("/github:review 7", [Odd()]))[0].endswith(":\ngood")


async def test_no_more_is_offered_than_a_list_can_hold() -> None:
    many = [{"uri": f"file:///{number}"} for number in range(10_000)]
    assert len(await offered_texts(Server(listed=many), "resource")) == 500


async def test_a_command_of_another_name_is_ordinary_text() -> None:
    assert await read_mentions("/other:review 7", [Server()]) == ("", {})
    assert await read_mentions("see /github:review 7", [Server()]) == ("", {})


async def test_a_server_without_resources_says_so(tmp_path: Path) -> None:
    async with hostile("NeverLists", tmp_path, start_timeout=0.5) as setting:
        with pytest.raises(Failed, match="unavailable"):
            await read_mentions("@hostile:a", [setting.source])


async def test_resources_and_prompts_of_a_real_server_are_read(tmp_path: Path) -> None:
    async with serving(tmp_path, node(servers_or_skip(), "everything")) as setting:
        await setting.start()
        read, _ = await read_mentions(
            "see @everything:demo://resource/dynamic/text/3", [setting.source]
        )
        assert "Resource 3: This is a plaintext resource" in read
        read, _ = await read_mentions("/everything:args-prompt city=Bonn", [setting.source])
        assert "Bonn" in read
        offered = await offered_texts(setting.source, "prompt")
        assert ("city", "") in [(name, "") for text in offered for name, _ in text.inputs]
        assert (await offered_texts(setting.source, "resource"))[0].name.startswith(
            "everything:demo://"
        )
        with pytest.raises(Failed, match="everything: "):
            await read_mentions("@everything:demo://nothing", [setting.source])
