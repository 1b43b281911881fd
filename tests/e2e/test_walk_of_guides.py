"""The README's tour and the tutorials, walked at every size and colour depth: what they name is there,
does something, and can be read.

The steps are the documents' own: their commands and files are taken from them, and each key and text
that their prose names has to be pressed or seen.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.guides import ROOT, SavedFile, ShownCommand, guide, named, section, steps
from tests.e2e.product import Product, bash, calls, say
from tests.e2e.screens import READY
from tests.e2e.test_screen_tour import REASON, answer
from tests.e2e.walking import DEPTHS, TERMINALS, Walk, bare, is_composing
from tests.effort import part
from tests.pty_screen import PtyScreen

EDIT = "Apply this edit?"
EFFECTS = "changed 2 files"
PRINTED = 200
"""Rows for what a command prints: it can be scrolled back in a terminal."""
Size = tuple[int, int]
pytestmark = [pytest.mark.docker, pytest.mark.soak(tried=1), pytest.mark.timeout(600)]


class Reader(Walk):
    """Does what prose says, and knows what it names that was not done yet."""

    def __init__(self, screen: PtyScreen, title: str, prose: str) -> None:
        super().__init__(screen)
        self.title = title
        self.left = named(prose)
        self._named = tuple(self.left)

    def do(self, name: str, *more: str) -> None:
        """Press a key, or type a text, that the page names, with more keys behind it."""
        self.tick(name)
        self.press(f"{self.title}: {name}", pressed(name), *more)

    def find(self, text: str) -> None:
        """Wait for a text that the page quotes."""
        self.tick(text)
        self.see(text)

    def tick(self, name: str) -> str:
        assert name in self._named, f"{self.title} does not name {name}: {self._named}"
        if name in self.left:
            self.left.remove(name)
        return name

    def answer(self, name: str, about: str) -> None:
        """Answer a card with a letter that the page names, from the prompt."""
        self.tick(name)
        answer(self.screen, name[-1].lower(), about)
        self.look(f"{self.title}: {name}")

    def finish(self) -> None:
        """Fail for everything that was wrong, and for what the page names without effect here."""
        assert "\n".join(self.wrong) == ""
        assert self.left == [], f"{self.title} names what was not done"


def pressed(name: str) -> str:
    """Return what a terminal sends for a key, by the name that prose has for it."""
    match name.partition("+"):
        case "Alt", "+", letter if len(letter) == 1:
            return f"\x1b{letter.lower()}"
        case _, "+", _:
            return name.lower()
        case "Enter" | "Esc" | "Tab" | "Up", _, _:
            return name.lower()
    return name


def prose(page: str) -> str:
    """Return what is below the headings of a page, without its blocks."""
    return "".join(section(page, heading) for heading in re.findall(r"(?m)^## (.*)$", page))


def words_of(command: SavedFile | ShownCommand) -> list[str]:
    assert isinstance(command, ShownCommand) and command.is_ours
    return shlex.split(command.line)[1:]


@contextmanager
def opened(
    product: Product, folder: Path, size: Size, depth: str, *arguments: str
) -> Iterator[PtyScreen]:
    """`codeagent` with these arguments in a folder, on a terminal; an editor there changes nothing."""
    command = [sys.executable, "-m", "codeagent", *arguments]
    temporary = str(product.home)
    own = {"HOME": temporary, "XDG_CONFIG_HOME": f"{temporary}/.config", "TMPDIR": temporary}
    env = {**product.environment, **own, "PYTHONPATH": str(ROOT), "EDITOR": "true"}
    with PtyScreen(command, env={**env, **DEPTHS[depth]}, cwd=folder, size=size) as screen:
        yield screen


def explore(reader: Reader, *keys: str) -> None:
    """Press keys of a card, from the prompt, that open something, and go back."""
    for key in keys:
        reader.tick(key)
        reader.look_into(f"{reader.title}: {key}", f"\x1b{key}")
        reader.close()


def deny(reader: Reader, name: str) -> None:
    """Deny once: the demo asks for the same again."""
    reader.tick(name)
    reader.press(f"{reader.title}: {name}", "\x1bn")


def steer(reader: Reader) -> None:
    reader.press("a message", "also think of 1900")
    reader.do("Enter")
    reader.see("will be read after this batch")
    reader.press("a message", "then write it down")
    reader.do("Alt+Enter")
    reader.see("when the agent is done")
    reader.do("Up")
    reader.press("rubbing it out", *["backspace"] * len("then write it down"))


def leave(reader: Reader) -> None:
    reader.tick("Ctrl+D")
    reader.screen.send("ctrl+d")
    assert reader.screen.exit_code() == 0
    assert reader.screen.modes_restored()


@pytest.mark.parametrize(("size", "depth"), part(TERMINALS, 1), ids=str)
def test_the_tour_of_the_readme(product: Product, size: Size, depth: str) -> None:
    tour = section(guide("README.md"), "A tour in sixty seconds")
    with opened(product, product.workspace, size, depth, "demo") as screen:
        reader = Reader(screen, "README", tour)
        reader.tick("make demo")
        screen.wait_for("❯ The tests fail.")
        reader.do("Enter")
        reader.find("Apply this edit?")
        explore(reader, "h", "p")
        reader.tick("e")
        reader.press("README: e", "\x1be")
        reader.see("nothing was changed yet")
        reader.close()
        reader.do("Tab")
        reader.do("r", f"{REASON}\r")
        reader.see(f"You said no: “{REASON}”")
        reader.answer("Alt+Y", EDIT)
        reader.find("`python3 tidy.py` changed 2 files")
        explore(reader, "h")
        deny(reader, "n")
        reader.see("You said no. This")
        reader.see(EFFECTS)
        steer(reader)
        reader.do("Esc")
        reader.see("pausing after this batch")
        reader.answer("y", EFFECTS)
        reader.see("paused before batch")
        reader.do("/step", "enter")
        reader.do("Enter")
        reader.see("python3 -m unittest")
        reader.do("Esc")
        reader.see("– stopped")
        screen.wait_for(READY)
        for command in ("/undo", "/redo"):
            reader.do(command, "enter")
        for command in ("/rewind", "/diff"):
            reader.do(command, "enter")
            screen.wait_for(lambda: not is_composing(screen))
            reader.close()
        for _ in range(3):
            reader.do("Ctrl+O")
        for sign in ("/", "@", "!"):
            reader.do(sign)
            reader.press("rubbing it out", "backspace")
        leave(reader)
    subprocess.run(["git", "init", "-q", product.workspace], check=True)
    slow = product.script(calls(bash("sleep 600")), say("It runs on."))
    words = ("--model", slow, "--mode", "auto", "--prompt", "wait")
    with opened(product, product.workspace, size, depth, *words) as reader.screen:
        reader.see("sleep 600 running")
        reader.do("Ctrl+B")
        reader.see("It runs on.")
        reader.do("Ctrl+T")
        reader.see("sleep 600")
        reader.close()
        leave(reader)
    [_, continued] = shlex.split(reader.tick("codeagent --continue"))
    with opened(product, product.workspace, size, depth, continued) as reader.screen:
        reader.see("It runs on.")
        leave(reader)
    reader.finish()


@pytest.mark.parametrize(("size", "depth"), part(TERMINALS, 1), ids=str)
def test_the_first_session_of_the_tutorial(product: Product, size: Size, depth: str) -> None:
    page = guide("docs/tutorials/first-session.md")
    opens, resumes = steps(page)
    with opened(product, product.workspace, size, depth, *words_of(opens)) as screen:
        reader = Reader(screen, "first session", prose(page))
        reader.find("The tests fail. Find out why, fix it, and show me that they pass.")
        reader.do("Enter")
        reader.see("Apply this edit?")
        reader.find("docker, net ask")
        reader.find("ask")
        reader.do("Tab")
        reader.find("n deny")
        reason = reader.tick("say in the docstring where the rule comes from")
        reader.do("r", f"{reason}\r")
        reader.see(f"You said no: “{reason}”")
        reader.do("Tab")
        reader.answer("y", EDIT)
        reader.see(EFFECTS)
        reader.find("python3 tidy.py")
        reader.do("Tab")
        deny(reader, "n")
        reader.see("You said no. This")
        reader.see(EFFECTS)
        explore(reader, "h")
        deny(reader, "Alt+N")
        reader.see("the same call 3 times")
        steer(reader)
        reader.tick("will be read after this batch")
        reader.do("Esc")
        reader.answer("Alt+Y", "the same call 3 times")
        reader.see("paused before batch")
        reader.do("Enter")
        reader.see("Nothing else uses the rule")
        screen.wait_for(READY)
        reader.tick("!")
        reader.do("!sleep 600", "enter")
        reader.see("Esc stops it")
        reader.do("Esc")
        reader.see("cancelled")
        leave(reader)
        said = re.findall(rb"resume with: .*codeagent (--resume) (\S+)", screen.raw)
    [(option, session)] = [(option.decode(), session.decode()) for option, session in said]
    assert words_of(resumes)[0] == option
    with opened(product, product.workspace, size, depth, option, session) as reader.screen:
        reader.see("sleep 600 cancelled")
        leave(reader)
    [folder] = product.home.glob("codeagent-demo-*")
    with opened(product, folder, size, depth, "--model", "demo") as reader.screen:
        reader.screen.wait_for(READY)
        reader.do("/resume", "enter")
        reader.see("Resume a session")
        reader.close()
        leave(reader)
    reader.finish()


TUTORIALS = ("first-tool", "mcp-server", "two-step-recipe")


@pytest.mark.parametrize(("size", "depth"), part(TERMINALS, 1), ids=str)
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_on_a_terminal(product: Product, name: str, size: Size, depth: str) -> None:
    """Its commands print there what the page says, laid out for the terminal: tables have columns
    where lines for programs have a second line."""
    page = guide(f"docs/tutorials/{name}.md")
    folder, wrong = product.workspace, list[str]()
    todo = [*steps(page)]
    for step in todo:
        match step:
            case SavedFile(path, text):
                (folder / path).write_text(text)
            case ShownCommand(line, _) if not step.is_ours:
                done = product.call_in(folder, "bash", "-c", f"{line} && pwd")
                folder = Path(done.out.splitlines()[-1])
            case ShownCommand(line, printed):
                if step is todo[-1]:
                    wrong += visited(product, folder, page, size, depth)
                tall = (size[0], PRINTED)
                with opened(product, folder, tall, depth, *words_of(step)) as screen:
                    screen.exit_code()
                    walk = Walk(screen)
                    walk.look(line)
                    shown = bare(screen.text()).replace(str(product.home), "~")
                    lines = [line for line in printed.splitlines() if not line.startswith(" ")]
                    missing = [each for each in " ".join(lines).split() if bare(each) not in shown]
                    wrong += [*walk.wrong, *(f"{line}: {each} is not printed" for each in missing)]
    assert "\n".join(wrong) == ""


def visited(product: Product, folder: Path, page: str, size: Size, depth: str) -> list[str]:
    """Open what the page names by a slash in a conversation with its model; return what is wrong."""
    with opened(product, folder, size, depth, "--model", "script:model.json") as screen:
        walk = Walk(screen)
        walk.see("work here anyway?")
        walk.look("the question about the folder")
        screen.send("y")
        screen.wait_for(READY)
        for command in re.findall(r"`(/[a-z]+)`", prose(page)):
            walk.press(command, command, "enter")
            screen.wait_for(lambda: not is_composing(screen))
            walk.close()
        screen.send("ctrl+d")
        assert screen.exit_code() == 0
    return walk.wrong
