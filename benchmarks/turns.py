"""Our part of a turn: from the end of an answer to the arrival of the next request."""

import asyncio
import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import exec_true_of
from benchmarks.measure import CODEAGENT, Figure, Server, model_server, ms, run, workspace
from codeagent.sandbox.docker_sandbox import DockerSandbox
from codeagent.sandbox.spec import SandboxSpec

TURNS = 20
BARE = """
import json, subprocess, sys, urllib.request
messages = [{"role": "user", "content": "hi"}]
for turn in range(int(sys.argv[2]) + 1):
    body = json.dumps({"model": "x", "messages": messages}).encode()
    urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/chat/completions", body)).read()
    out = subprocess.run(["bash", "-c", "echo hello"], capture_output=True, text=True).stdout
    messages.append({"role": "user", "content": out})
"""
LITELLM_LOOP = """
import os, asyncio, sys, subprocess
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MODE="PRODUCTION", LITELLM_LOG="ERROR",
                  LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS="True", LITELLM_LOCAL_BLOG_POSTS="True")
import litellm
litellm.suppress_debug_info = True
async def main():
    messages = [{"role": "user", "content": "hi"}]
    for turn in range(int(sys.argv[2]) + 1):
        stream = await litellm.acompletion(model="openai/bench", base_url=sys.argv[1], api_key="k", stream=True,
                                           messages=messages, max_retries=0)
        async for _ in stream: pass
        out = subprocess.run(["bash", "-c", "echo hello"], capture_output=True, text=True).stdout
        messages.append({"role": "user", "content": out})
    await litellm.close_litellm_async_clients()
asyncio.run(main())
"""


def figures() -> Iterator[Figure]:
    bare = _gap([sys.executable, "-c", BARE, "BASE", str(TURNS)])
    litellm = _gap([sys.executable, "-c", LITELLM_LOOP, "BASE", str(TURNS)])
    model = ["--model", "openai/bench", "--api-base", "BASE", "--yes"]
    host = _gap([*CODEAGENT, "run", *model, "--sandbox", "off", "go"])
    docker = _gap([*CODEAGENT, "run", *model, "go"])
    floor = f"bare script {ms(bare)}, litellm alone {ms(litellm)}"
    yield Figure("our part of a turn, command on the host", ms(host), floor, host / litellm, "litellm + <= 6 ms")
    plain = _docker_exec_true()
    yield Figure(
        "… more in the container", ms(docker - host), f"docker exec true {ms(plain)}", (docker - host) / plain, "<= 1.3"
    )
    yield from _growth()


def _gap(command: list[str]) -> float:
    """Median seconds between the end of an answer and the arrival of the next request."""
    turns = [{"calls": [["bash", {"command": f"echo hello {turn}"}]]} for turn in range(TURNS)] + [{"text": "done"}]
    with model_server(turns) as server, workspace() as folder:
        run([part.replace("BASE", server.base_url) for part in command], cwd=folder, env={"OPENAI_API_KEY": "k"})
        return statistics.median(_gaps(server)[2:])


def _gaps(server: Server) -> list[float]:
    log = server.log()
    return [later["arrived"] - earlier["ended"] for earlier, later in itertools.pairwise(log)]


def _docker_exec_true() -> float:
    """`docker exec true` in the sandbox of a run that is waiting, by the engine's own client."""
    with workspace() as folder, tempfile.TemporaryDirectory() as state:
        return asyncio.run(_in_sandbox(folder, Path(state)))


async def _in_sandbox(root: Path, state: Path) -> float:
    spec = SandboxSpec(root=root, state_dir=state, session="bench", home=Path.home(), docker_host=None, image=None)
    sandbox = DockerSandbox(spec)
    await sandbox.start(lambda _: None)
    try:
        return await asyncio.to_thread(exec_true_of, "bench")
    finally:
        await sandbox.close()


def _growth(turns: int = 500) -> Iterator[Figure]:
    """Turn 500 against turn 20, and what the process has grown by, with the scripted model."""
    with tempfile.TemporaryDirectory() as folder, workspace() as place:
        (place / "a.txt").write_text("some text\n" * 20)
        script = Path(folder) / "long.json"
        script.write_text(_reading(turns))
        limits = ["--max-turns", str(turns + 5), "--max-calls", str(turns + 5)]
        long = run([*CODEAGENT, "run", "--model", f"script:{script}", "--output", "jsonl", *limits, "go"], cwd=place)
        script.write_text(_reading(20))
        short = run([*CODEAGENT, "run", "--model", f"script:{script}", "go"], cwd=place)
    started = [e["ts"] for e in map(json.loads, long.stdout.splitlines()) if e["type"] == "turn.started"]
    early, late = (started[60] - started[10]) / 50, (started[-1] - started[-51]) / 50
    yield Figure("turns 450 to 500, each", ms(late), f"turns 10 to 60 {ms(early)}", late / early, "<= 1.2")
    yield Figure(
        "memory after 500 turns",
        f"{long.peak_mb:.0f} MB",
        f"after 20 turns {short.peak_mb:.0f} MB",
        None,
        f"+{long.peak_mb - short.peak_mb:.0f} MB, <= 60 MB",
    )


def _reading(turns: int) -> str:
    """A script that reads one line after the other, over and over: the same call in a row would be refused."""
    calls = [["read", {"path": "a.txt", "offset": turn % 20 + 1, "limit": 20}] for turn in range(turns)]
    return json.dumps([{"text": "on", "calls": [call]} for call in calls] + [{"text": "done"}])
