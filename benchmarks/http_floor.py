"""The least a client does: `python http_floor.py BASE TURNS` asks, reads the stream, runs `echo`,
asks again.

The client is the product's, libcurl on an asyncio loop. Without turns it is the floor of a start,
and of a long answer.
"""

import asyncio
import json
import subprocess
import sys

import pycurl


async def main(base: str, turns: int) -> None:
    messages = [{"role": "user", "content": "hi"}]
    curl = pycurl.Curl()
    async with pycurl.AsyncCurlMulti() as multi:
        for turn in range(turns + 1):
            await _ask(multi, curl, base, messages)
            if turn < turns:
                messages += [
                    {"role": "assistant", "content": ""},
                    {"role": "user", "content": _command()},
                ]
    curl.close()


def _command() -> str:
    return subprocess.run(
        ["bash", "-c", "echo hello"], capture_output=True, text=True, check=True
    ).stdout


async def _ask(
    multi: pycurl.AsyncCurlMulti, curl: pycurl.Curl, base: str, messages: list[dict[str, str]]
) -> None:
    rest = b""

    def read(data: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                json.loads(line[6:])

    curl.setopt(pycurl.URL, f"{base}/chat/completions")
    curl.setopt(pycurl.POSTFIELDS, json.dumps({"model": "x", "messages": messages}))
    curl.setopt(pycurl.WRITEFUNCTION, read)
    await multi.perform(curl)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
