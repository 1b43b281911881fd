"""From the command to an answer, and to the first request."""

import sys
import time
from collections.abc import Iterator

from benchmarks.measure import CODEAGENT, SCRIPT, Figure, Finished, median_of, model_server, ms, run, workspace

LITELLM_ALONE = """
import os, asyncio, sys
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MODE="PRODUCTION", LITELLM_LOG="ERROR",
                  LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS="True", LITELLM_LOCAL_BLOG_POSTS="True")
import litellm
litellm.suppress_debug_info = True
async def main():
    stream = await litellm.acompletion(model="openai/bench", base_url=sys.argv[1], api_key="k", stream=True,
                                       messages=[{"role": "user", "content": "hi"}], max_retries=0)
    async for _ in stream: pass
    await litellm.close_litellm_async_clients()
asyncio.run(main())
"""
BARE = """
import json, sys, urllib.request
body = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hi"}]}).encode()
urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/chat/completions", body)).read()
"""


def figures() -> Iterator[Figure]:
    yield from _answers_without_work()
    yield from _first_request()


def _answers_without_work() -> Iterator[Figure]:
    bare = median_of(15, lambda: run([sys.executable, "-c", "pass"]).wall)
    for option in ("--version", "--help"):
        ours = median_of(15, lambda option=option: run([*SCRIPT, option]).wall)  # type: ignore[misc]  # bound per loop
        yield Figure(f"codeagent {option}", ms(ours), f"python -c pass {ms(bare)}", ours / bare, "<= 3")


def _first_request() -> Iterator[Figure]:
    def until_request(command: list[str]) -> tuple[float, float, Finished]:
        with model_server([{"text": "done"}]) as server, workspace() as folder:
            started = time.monotonic()
            filled = [part.replace("BASE", server.base_url) for part in command]
            done = run(filled, cwd=folder, env={"OPENAI_API_KEY": "k"})
            entry = server.log()[0]
            return entry["arrived"] - started, entry["prefix_bytes"], done

    ours_command = [*CODEAGENT, "run", "--model", "openai/bench", "--api-base", "BASE", "hi"]
    floors = {"litellm alone": LITELLM_ALONE, "bare script": BARE}
    times = {
        name: median_of(3, lambda c=code: until_request([sys.executable, "-c", c, "BASE"])[0])
        for name, code in floors.items()
    }  # type: ignore[misc]  # bound per loop
    ours = median_of(3, lambda: until_request(ours_command)[0])
    floor = f"litellm alone {ms(times['litellm alone'])}, bare script {ms(times['bare script'])}"
    yield Figure("start to first request", ms(ours), floor, ours / times["litellm alone"], "<= 1.1")
    _, prefix_bytes, done = until_request(ours_command)
    yield Figure("first request: system prompt and tools", f"{prefix_bytes / 1024:.1f} KB", "-", None, "<= 8 KB")
    litellm = until_request([sys.executable, "-c", LITELLM_ALONE, "BASE"])[2]
    yield Figure(
        "peak memory of a run",
        f"{done.peak_mb:.0f} MB",
        f"litellm alone {litellm.peak_mb:.0f} MB",
        done.peak_mb / litellm.peak_mb,
        "-",
    )
