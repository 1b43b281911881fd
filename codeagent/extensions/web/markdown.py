"""Turns a page into Markdown in a separate process, because a hostile page can keep a parser busy
for hours.

Run as a program, it reads HTML from standard input, takes the page's address and a time limit as
arguments, and ends once it has used more processor time or memory than a page needs.
"""

import asyncio
import os
import re
import resource
import signal
import sys
from contextlib import suppress

from codeagent.core.host_programs import NOWHERE, PAGE_CONVERTER, minimal, start_program
from codeagent.net.web.url import WebUrl

SECONDS = 20.0
"""Seconds of processor time."""
_MOST_MEMORY = 1 << 30
_MOST_TEXT = 4 << 20
"""Characters of the result; making links absolute can make a page a thousand times longer."""
_TOO_DEEP = 3
"""The exit status for a page that is nested too deeply."""
_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "head")
_OF_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE")
"""Variables that say where this program itself was imported from."""
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


class NotConverted(Exception):
    """The page cannot be converted; the message says why, as a clause."""


async def markdown_of(html: str, url: WebUrl, seconds: float = SECONDS) -> str:
    """Return the visible text of a page as Markdown; links are absolute.

    It may use `seconds` of processor time. Raises NotConverted.
    """
    try:
        process = await start_program(
            PAGE_CONVERTER,
            [sys.executable, "-P", "-m", __name__, str(url), str(seconds)],
            folder=NOWHERE,
            environment=minimal(os.environ, *_OF_PYTHON),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise NotConverted(
            f"no process to convert the page to Markdown can be started ({error.strerror})"
        ) from None
    try:
        text, _ = await process.communicate(html.encode("utf-8", "surrogatepass"))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == _TOO_DEEP:
        raise NotConverted("the page is nested too deeply for Markdown")
    if process.returncode != 0:
        raise NotConverted("the page is malformed, or takes too long to convert to Markdown")
    return text.decode("utf-8", "replace")


def converted(html: str, url: WebUrl) -> str:
    """Convert a page as `markdown_of` does, without limits. Blocks. Raises RecursionError."""
    from bs4 import BeautifulSoup  # needed only in the separate process
    from justhtml import JustHTML
    from markdownify import MarkdownConverter

    # Most pages leave tags unclosed, as HTML5 allows: read as a browser does, then written with
    # every tag closed.
    soup = BeautifulSoup(JustHTML(html, sanitize=False).to_html(pretty=False), "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for element in soup(_UNSEEN):
        element.decompose()
    for name, attribute in (("a", "href"), ("img", "src")):
        for element in soup(name):
            element[attribute] = _absolute(str(element.get(attribute) or ""), url)
    text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
    text = _BLANK_LINES.sub("\n\n", text).strip()
    text = f"# {title}\n\n{text}" if title and not text.startswith("# ") else text
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\n[… the rest was left out]"


def _absolute(reference: str, url: WebUrl) -> str:
    try:
        return str(url.joined(reference))
    except ValueError:
        return "" if reference.startswith("data:") else reference[:500]


def _main(url: WebUrl, seconds: float) -> int:
    signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal ends the process
    with suppress(ValueError, OSError):  # not every system can limit memory
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        text = converted(html, url)
    except RecursionError:
        return _TOO_DEEP
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(_main(WebUrl.parse(sys.argv[1]), float(sys.argv[2])))
