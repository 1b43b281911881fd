"""What a whole request, and loading litellm for it, may not do to the machine, the terminal and the
keys."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import part

ROOT = Path(__file__).parents[2]
CANARY = "sk-canary-0123456789abcdef"
PROGRAM = """
import asyncio, json, sys

contacts = []

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        contacts.append(str(arguments[1]))
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        contacts.append(str(arguments[0]))

sys.addaudithook(watch)

from codeagent.core.errors import ModelError
from codeagent.core.messages import UserMessage
from codeagent.core.model import ModelAnswer, ModelRequest
from codeagent.llm.factory import ModelOptions, open_model
from codeagent.llm.retry import RetryingModel
from tests.llm.asking import BASH, READ
from tests.servers import Turn, anthropic_server, openai_server, responses_server

REQUEST = ModelRequest("system", (UserMessage.from_text("hi"),), (READ, BASH))
answers, errors = [], []

async def ask(name, address, key):
    model = open_model(name, api_base=address, api_key=key, options=ModelOptions(wire=sys.argv[2]))
    await model.prepare()
    try:
        async for event in model.stream(REQUEST):
            if isinstance(event, ModelAnswer):
                answers.append(event.message.text)
    except ModelError as error:
        errors.append(str(error))
    await model.close()

async def main():
    good = Turn(text="fine", calls=(("read", {"path": "a"}),))
    for server, name in ((openai_server, "fake"), (anthropic_server, "anthropic/x")):
        async with server([good, Turn(text="no usage", usage=None), Turn(status=400), Turn(status=401)]) as fake:
            for _ in range(4):
                await ask(name, fake.base_url, sys.argv[1])
    async with responses_server([Turn(text="hi")]) as fake:
        await ask("openai/responses/gpt-5", fake.base_url, sys.argv[1])
    await ask("gpt-5", None, None)
    cancelled = open_model("openai/x", api_base="http://127.0.0.1:9")
    task = asyncio.create_task(anext(cancelled.stream(REQUEST)))
    await asyncio.sleep(0)
    task.cancel()
    await cancelled.close()

asyncio.run(main())
import os
environment = {name: value for name, value in os.environ.items() if name.startswith("HOSTILE") or "BASE_URL" in name}
found = {"contacts": contacts, "answers": answers, "errors": errors, "environment": environment}
with open("report.json", "w") as report:
    json.dump(found | {"litellm": "litellm" in sys.modules}, report)
"""


@pytest.mark.soak(tried=1)
@pytest.mark.parametrize("wire", part(["auto", "litellm"], 1))
def test_requests_leave_no_trace_but_their_answers(tmp_path: Path, wire: str) -> None:
    """One process: no contact beyond loopback, no `.env` read, nothing printed, no key in an error.

    libcurl's contacts are not seen; but without litellm, nothing else makes any.
    """
    (tmp_path / ".env").write_text(
        f"OPENAI_BASE_URL=http://127.0.0.1:9/evil\nOPENAI_API_KEY={CANARY}\nHOSTILE=1\n"
    )
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", PROGRAM, CANARY, wire],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["answers"] == ["fine", "no usage", "fine", "no usage", "hi"]
    assert len(report["errors"]) == 5
    assert "set OPENAI_API_KEY" in report["errors"][-1]
    assert CANARY not in json.dumps(report)
    assert report["environment"] == {}
    assert (bool(report["contacts"]), report["litellm"]) == (wire == "litellm", wire == "litellm")
    assert {contact for contact in report["contacts"] if "127.0.0.1" not in contact} == set()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".env", "report.json"]


def test_leaving_while_litellm_is_being_imported_is_quick_and_silent() -> None:
    """The import's thread does not hold the process, and says nothing when it goes."""
    program = (
        "import asyncio\nfrom codeagent.llm.litellm_model import LitellmModel\n"
        "async def main():\n    await LitellmModel('openai/x').prepare()\n    await asyncio.sleep(0.3)\n"
        "asyncio.run(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
