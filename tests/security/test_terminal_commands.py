"""Nothing of a repository, a log or an exception acts on the terminal that a command
writes to.

Nor does it behind a pipe, which mostly ends at a terminal. Only the answer of `run` is exact there.
"""

import io
import json
import os
import re
import socket
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import codeagent
from codeagent.extensions.batch.progress import BatchProgress
from codeagent.extensions.batch.views import picture
from codeagent.extensions.editor.listeners import LONGEST, announced
from tests.e2e.product import Done, Product, calls, say
from tests.effort import part
from tests.security.terminal_payloads import CONTROL, HIDDEN, PAYLOADS

ONE_OF_EACH = "\x1b]52;c;b3duZWQ=\x07\x9b2J\x7f\x85\u202e\ufe0f\u2800\u034f\u180b\u17b4\ufdd0"
EVERYTHING = "|".join(
    text.encode("utf-8", "replace").decode() for text in (ONE_OF_EACH, *PAYLOADS)
).replace("\0", "")
WRITES = re.compile(
    r"\.draw\(text|__std(?:out|err)__|std(?:out|err)\.buffer|os\.write\((?:1|2|sys\.)|os\.fdopen\((?:1|2)\b|/dev/tty|open\((?:1|2),"
)
TERMINALS_OWN = {
    "console/colour.py",
    "tui/driver.py",
    "tui/terminal.py",
    "tui/crash.py",
    "sandbox/id_mapping.py",
    "sandbox/terminal.py",
    "extensions/batch/views.py",
    "extensions/web/markdown.py",
    "extensions/replay/pictures.py",
}
"""The styles around visible text, which are tried below; the screen, which draws; a report that
only asks for an encoding; the shell of `codeagent sandbox shell`; programs that codeagent starts
with pipes; and pictures and the table of a batch, which are tried below."""


@pytest.fixture(params=["terminal", "pipe"])
def product(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Product]:
    """Everything is a terminal, or nothing is."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(os, "isatty", lambda fd: request.param == "terminal")
    yield Product(tmp_path / "work", tmp_path / "home")


def acting(text: str) -> set[str]:
    """What is not a character to look at, told by Unicode itself and not by the code under test."""
    unseen = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    blank = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
    return {
        character
        for character in set(text) - {"\n", "\t"}
        if unicodedata.category(character) in unseen
        or character in blank
        or 0xFE00 <= ord(character) <= 0xFE0F
        or 0xE0100 <= ord(character) <= 0xE01EF
        or 0xFDD0 <= ord(character) <= 0xFDEF
        or ord(character) & 0xFFFE == 0xFFFE
    }


def harmless(done: Done) -> Done:
    assert acting(done.out) == set() and acting(done.err) == set(), (
        done.out[:2000],
        done.err[:2000],
    )
    return done


def quoted(text: str) -> str:
    """As TOML and YAML write it."""
    return '"' + "".join(f"\\U{ord(letter):08x}" for letter in text) + '"'


def config(product: Product, text: str) -> None:
    (product.workspace / ".codeagent").mkdir(exist_ok=True)
    (product.workspace / ".codeagent/config.toml").write_text(text)


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
@pytest.mark.parametrize(
    "command",
    [
        ["run", "x"],
        ["config", "show"],
        ["sandbox", "status"],
        ["doctor"],
        ["sandbox", "test"],
        ["prompt"],
        ["tools", "list"],
    ],
)
def test_a_key_of_the_project_s_configuration_acts_nowhere(
    product: Product, command: list[str]
) -> None:
    config(product, f"{quoted(EVERYTHING)} = 1\n")
    done = harmless(
        product.call(*command, env=product.environment | {"DOCKER_HOST": "unix:///no.sock"})
    )
    if command != ["prompt"] and command[0] != "tools":
        assert "\\x1b]52;c;b3duZWQ=" in done.out + done.err, "the control: it is shown"


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
def test_values_of_a_configuration_act_nowhere(product: Product) -> None:
    own = product.home / "config/codeagent/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"model = {quoted(ONE_OF_EACH)}\n")
    done = harmless(product.call("config", "show"))
    assert json.loads(done.out)["model"] == ONE_OF_EACH
    harmless(product.call("doctor", env=product.environment | {"DOCKER_HOST": "unix:///no.sock"}))


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
@pytest.mark.parametrize("suffix", [".yaml", ".py"])
def test_a_tool_file_s_name_content_and_errors_act_nowhere(product: Product, suffix: str) -> None:
    folder = product.workspace / ".codeagent/tools"
    folder.mkdir(parents=True)
    name = f"{ONE_OF_EACH.replace('/', '')}{suffix}"
    shown = quoted(EVERYTHING)
    texts = {
        ".yaml": f"name: {shown}\ndescription: {shown}\nargvs: {shown}\n",
        ".py": f"raise ValueError({EVERYTHING!a})\n",
    }
    (folder / name).write_text(texts[suffix], errors="replace")
    for arguments in (
        ["check", f".codeagent/tools/{name}"],
        ["check", "--trust-project", f".codeagent/tools/{name}"],
        ["list"],
        ["list", "--trust-project"],
        ["list", "--json", "--problems", "--trust-project"],
        ["show", EVERYTHING],
        ["run", EVERYTHING],
        ["trust"],
    ):
        harmless(product.call("tools", *arguments))


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
@pytest.mark.parametrize("output", ["text", "json", "jsonl"])
def test_what_a_model_says_and_calls_acts_nowhere(product: Product, output: str) -> None:
    model = product.script(
        calls(
            (EVERYTHING, {EVERYTHING: EVERYTHING}), ("read", {"path": EVERYTHING}), text=EVERYTHING
        ),
        say(EVERYTHING),
    )
    done = product.call("run", EVERYTHING, "--sandbox", "off", "--output", output, "--model", model)
    if output != "text" or os.isatty(1):
        harmless(done)
    if output == "json":
        assert json.loads(done.out)["text"].strip() == EVERYTHING.strip()
    for arguments in (
        ["show", "--last"],
        ["show", "--last", "--json"],
        ["list"],
        ["list", "--json"],
        ["board"],
        ["board", "--json"],
        ["check", "--last"],
    ):
        harmless(product.call("sessions", *arguments))
    harmless(product.call("sessions", "show", "--last", "--approvals"))
    harmless(product.call("stats", "--last"))
    for by in ("day", "model", "repository"):
        harmless(product.call("stats", "--by", by))
    for form in ("md", "html", "jsonl"):
        harmless(product.call("sessions", "export", "--last", "--format", form))
    harmless(product.call("sessions", "search", "c3duZWQ"))


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
def test_a_picture_of_a_session_acts_nowhere(product: Product) -> None:
    product.call(
        "run", EVERYTHING[:300], "--sandbox", "off", "--model", product.script(say(ONE_OF_EACH))
    )
    for kind in part(("--svg", "--cast"), 1):
        assert harmless(product.call("replay", product.sessions[-1].name, kind, "-")).code == 0


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
def test_a_wrong_argument_acts_nowhere(product: Product) -> None:
    for arguments in (
        [EVERYTHING],
        ["run", "x", "--mode", EVERYTHING],
        ["run", "x", "--deny", EVERYTHING],
        ["nosuch" + EVERYTHING],
    ):
        assert harmless(product.call(*arguments)).code == 2


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
def test_what_a_selection_names_and_what_answers_it_act_nowhere(product: Product) -> None:
    """The answer comes from the process that listens on the socket."""
    state = product.home / "state/codeagent"
    (product.workspace / "a.py").write_text("")

    def listen(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(LONGEST)
            connection.sendall(EVERYTHING.replace("\n", " ").encode("utf-8", "replace") + b"\n")

    with announced(state, product.workspace) as (_, server):
        thread = threading.Thread(target=listen, args=(server,))
        thread.start()
        answered = harmless(product.call("send-selection", "a.py:1-2"))
        thread.join()
    assert answered.code == 2 and "\\x1b]52;c;b3duZWQ=" in answered.err, "the control: it is shown"
    unknown = harmless(product.call("send-selection", ONE_OF_EACH))
    assert unknown.code == 2 and "\\x1b]52;c;b3duZWQ=" in unknown.err


@pytest.mark.soak(tried=len(PAYLOADS), row="terminal payloads")
def test_the_table_of_a_batch_acts_nowhere() -> None:
    progress = BatchProgress(total=1, slots=1)
    progress.changed(EVERYTHING, {"title": EVERYTHING, "state": EVERYTHING, "turn": 1})
    progress.changed("key", {"title": ONE_OF_EACH, "state": ONE_OF_EACH, "turn": 1})
    out = io.StringIO()
    console = Console(file=out, width=100_000, markup=False, highlight=False)
    console.print(picture(progress, 2))
    assert acting(out.getvalue()) == set()
    assert "\\x1b]52;c;b3duZWQ=" in out.getvalue(), "the control: it is shown"


STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_with_colours_nothing_acts_but_our_own_styles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    product = Product(tmp_path / "work", tmp_path / "home")
    monkeypatch.setattr(os, "isatty", lambda fd: True)
    colours = product.environment | {"TERM": "xterm-256color", "FORCE_COLOR": "1"}
    own = product.home / "config/codeagent/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"model = {quoted(ONE_OF_EACH)}\n")
    folder = product.workspace / ".codeagent/tools"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text(f"name: {quoted(EVERYTHING)}\n")
    (product.workspace / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"s": {"command": EVERYTHING, "args": [EVERYTHING]}}})
    )
    model = product.script(
        calls(
            (EVERYTHING, {EVERYTHING: EVERYTHING}), ("read", {"path": EVERYTHING}), text=EVERYTHING
        ),
        say(f"{EVERYTHING}\n\n&#27;]52;c;b3duZWQ=&#7; [{ONE_OF_EACH}](http://{ONE_OF_EACH})"),
    )
    styled = 0
    for arguments in (
        ["run", EVERYTHING, "--sandbox", "off", "--model", model],
        ["sessions", "list"],
        ["sessions", "list", "--all"],
        ["sessions", "show", "--last"],
        ["sessions", "search", "b3duZWQ"],
        ["sessions", "board"],
        ["stats", "--last"],
        ["tools", "list"],
        ["tools", "list", "--problems"],
        ["mcp", "list"],
        ["extensions", "show", EVERYTHING],
        ["config", "show"],
        ["config", "path", "--all"],
        [EVERYTHING],
        ["run", "x", "--mode", EVERYTHING],
    ):
        done = product.call(*arguments, env=colours)
        drawn = [re.sub(r"\r\x1b\[(?:K|\d+A\x1b\[J)", "", text) for text in (done.out, done.err)]
        styled += sum(bool(STYLE.search(text)) for text in drawn)
        harmless(Done(done.code, *(STYLE.sub("", text) for text in drawn)))
    assert styled >= 14, "the control: there are colours"


def test_what_goes_to_a_program_is_left_as_it_is(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda fd: False)
    model = product.script(say(ONE_OF_EACH))
    assert (
        product.call("run", "x", "--sandbox", "off", "--model", model).out == ONE_OF_EACH + "\n"
    ), "the control"


def test_nothing_writes_to_the_terminal_around_the_streams() -> None:
    root = Path(codeagent.__file__).parent
    around = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if WRITES.search(path.read_text(encoding="utf-8"))
        and str(path.relative_to(root)) not in TERMINALS_OWN
    }
    assert around == set()
    assert all(
        WRITES.search((root / name).read_text(encoding="utf-8"))
        for name in TERMINALS_OWN - {"tui/terminal.py"}
    )


def test_the_payloads_are_those_of_the_screen() -> None:
    assert len(CONTROL) > 400 and len(HIDDEN) > 40
    assert len(acting(EVERYTHING)) > 80
