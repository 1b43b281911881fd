"""What `@` brings into a prompt, through the real command."""

import asyncio
import base64
import errno
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from codeagent.extensions.attachments import mentions
from tests.e2e.product import Event, Product, calls, of, read, results, say, text_of
from tests.extensions.attachments.drawn import drawn, noisy
from tests.fakes import put
from tests.servers import FakeProvider, Turn, anthropic_server, openai_server, responses_server

EDIT = ("edit", {"path": "src/calc.py", "old_string": "a - b", "new_string": "a + b"})
CODE = "def add(a, b):\n    return a - b\n\n\nprint(add(1, 2))\n"


@pytest.fixture(autouse=True)
def files(product: Product) -> None:
    put(product.workspace, "src/calc.py", CODE)
    put(product.workspace, "src/two words.txt", "one\ntwo\n")
    put(product.workspace, "red.png", drawn())
    put(product.workspace, ".env", "TOKEN=abc\n")
    put(product.home, "outside.txt", "not yours\n")
    (product.workspace / "link.txt").symlink_to(product.home / "outside.txt")
    (product.workspace / "hidden.txt").symlink_to(".env")


def sent(product: Product, prompt: str, *arguments: str) -> tuple[Event, list[str]]:
    """The note beside the prompt (an empty one if there is none), and what is said of the rest."""
    done = product.run(product.script(say("ok")), "--output", "jsonl", *arguments, prompt=prompt)
    assert done.code == 0, done.err
    notes = [
        one["message"] for one in of(done.events, "message.added") if "attached" in one["message"]
    ]
    said = [one["text"] for one in of(done.events, "notice") if one["code"] == "mention.left"]
    return notes[0] if notes else {}, said


def test_files_lines_folders_and_images_go_with_the_prompt(product: Product) -> None:
    note, said = sent(
        product,
        'look (@src/calc.py:1-2), @"src/two words.txt" and @src/. Is @red.png red? me@red.png',
    )
    text, image = note["content"]
    assert "> 1\tdef add(a, b):\n> 2\t    return a - b\n> [Lines 1-2 of 5." in text["text"]
    assert "print" not in text["text"]
    assert "> src/two words.txt:\n> 1\tone\n> 2\ttwo" in text["text"]
    assert ">   calc.py  " in text["text"]
    assert (image["type"], image["media_type"]) == ("image", "image/png")
    assert [(one["name"], one["about"].partition(" ·")[0]) for one in note["attached"]] == [
        ("src/calc.py:1-2", "2 lines"),
        ("src/two words.txt", "2 lines"),
        ("src/", "2 names"),
        ("red.png", "64×48"),
    ]
    assert said == []


def test_what_is_missing_outside_or_secret_stays_text_and_is_reported(product: Product) -> None:
    names = ["nope.py", "../home/outside.txt", "/etc/passwd", ".env", "link.txt", "hidden.txt"]
    note, said = sent(product, " ".join(f"@{name}" for name in names) + " @git:log @")
    assert note == {}
    assert [name for name in names if f"@{name} (" in said[0]] == names
    assert "@.env (.env looks like a file of secrets" in said[0]
    assert "@git:log" not in said[0]  # it may be a server's


def test_a_path_through_hundreds_of_missing_folders_stays_text(product: Product) -> None:
    note, said = sent(product, "@" + "a/" * 1500)
    assert note == {} and "… (not a file or folder here)" in said[0]


async def test_a_file_that_the_disk_does_not_give_stays_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(mentions, "_read", fails)
    host: Any = None
    found = await mentions.read_mentions(host, "see @a.txt")
    assert found.left == ("@a.txt ([Errno 5] Input/output error)",)


def test_lines_that_are_shown_only_in_part_are_counted(product: Product) -> None:
    put(product.workspace, "minified.js", "x" * 5000 + "\n")
    put(product.workspace, "huge.log", "a line\n" * 2_500_000)
    note, _ = sent(product, "@minified.js @huge.log @huge.log:7-8")
    assert [one["about"].partition(" ·")[0] for one in note["attached"]] == [
        "first 1 line",
        "first 2,000 lines",
        "2 lines",
    ]


def test_lines_behind_the_end_of_a_file_are_reported_whatever_its_name(product: Product) -> None:
    put(product.workspace, "Makefile", "all:\n\tls\n")
    note, said = sent(product, "@Makefile:9 @git:log @..")
    assert note == {}
    assert said == [
        "sent as text: @Makefile:9 (Makefile has 2 lines; offset 9 is past its end), "
        "@.. (not a file or folder here)"
    ]


def test_names_that_are_not_files_take_no_place_of_files_and_are_reported_briefly(
    product: Product,
) -> None:
    code = " ".join(f"@decorator.number{number}" for number in range(2000))
    note, said = sent(product, f"{code} @src/calc.py")
    assert [one["name"] for one in note["attached"]] == ["src/calc.py"]
    assert said[0].endswith("and 1,980 more") and len(said[0]) < 2000


def test_at_most_twenty_files_are_read(product: Product) -> None:
    names = [f"f{number}.txt" for number in range(22)]
    for name in names:
        put(product.workspace, name, "x\n")
    note, said = sent(product, " ".join(f"@{name}" for name in names))
    assert [one["name"] for one in note["attached"]] == names[:20]
    assert said == ["sent as text: @f20.txt (at most 20 are read), @f21.txt (at most 20 are read)"]


def test_a_rule_that_denies_reading_holds_for_mentions(product: Product) -> None:
    note, said = sent(product, "@src/calc.py @a.txt", "--deny", "read(src/**)")
    assert [one["name"] for one in note["attached"]] == ["a.txt"]
    assert said[0].startswith("sent as text: @src/calc.py (")


def test_a_damaged_image_a_binary_file_and_too_much_stay_text(product: Product) -> None:
    put(product.workspace, "bad.png", drawn()[:50])
    put(product.workspace, "prog", b"\x7fELF\0\0")
    for number in range(6):
        put(product.workspace, f"long{number}.txt", "x" * 60 + "\n" + "line of text\n" * 3000)
    long = " ".join(f"@long{number}.txt" for number in range(6))
    note, said = sent(product, f"@bad.png @prog {long}")
    assert "@bad.png (it is damaged" in said[0] and "@prog (prog is a binary file" in said[0]
    assert "(too large together with the others)" in said[0]
    assert note["attached"][0]["about"].startswith("first ")
    assert len(json.dumps(note)) < 200_000


def test_images_go_with_a_prompt_as_far_as_a_request_has_room(product: Product) -> None:
    for number in range(8):
        put(product.workspace, f"noise{number}.png", noisy(1000, 900))
    note, said = sent(product, " ".join(f"@noise{number}.png" for number in range(8)))
    names = [one["name"] for one in note["attached"]]
    assert names == ["noise0.png", "noise1.png", "noise2.png"]
    assert said[0].count("too large together with the others") == 5


def tried(product: Product, call: tuple[str, Any], prompt: str, *arguments: str) -> str:
    """The result of the call that the model makes in answer to a prompt."""
    script = product.script(calls(call), say("done"))
    done = product.run(script, "--yes", "--output", "jsonl", *arguments, prompt=prompt)
    return text_of(results(done.events)[0])


def test_what_was_mentioned_counts_as_read_also_after_a_resume_and_in_a_fork(
    product: Product,
) -> None:
    edited = "Edited src/calc.py: 1 replacement."
    back = ("edit", {"path": "src/calc.py", "old_string": "a + b", "new_string": "a - b"})
    sent(product, "see @src/calc.py:1-2")
    session = product.sessions[-1].name
    assert product.call("sessions", "fork", session).code == 0
    (fork,) = [each.name for each in product.sessions if each.name != session]
    assert tried(product, EDIT, "fix it", "--resume", session) == edited
    # The later change counts, not what the prompt showed before it.
    assert tried(product, back, "take it back", "--resume", session) == edited
    assert tried(product, EDIT, "fix it @a.txt", "--resume", fork) == edited
    assert tried(product, back, "take it back @src/two words.txt", "--resume", fork) == edited


def test_lines_that_were_not_mentioned_are_not_read(product: Product) -> None:
    write = ("write", {"path": "src/calc.py", "content": "x = 1\n"})
    said = tried(product, write, "see @src/calc.py:1-2")
    assert "src/calc.py was read only in part; nothing was written" in said
    assert (product.workspace / "src/calc.py").read_text() == CODE


def test_a_picture_that_the_model_reads_is_scaled_and_has_a_small_copy(product: Product) -> None:
    put(product.workspace, "big.png", drawn((4000, 2000)))
    put(product.workspace, "bad.png", drawn()[:50])
    script = product.script(calls(read("big.png"), read("bad.png")), say("done"))
    found = results(product.run(script, "--output", "jsonl").events)
    big, bad = sorted(found, key=lambda one: one["call_id"])
    image = Image.open(BytesIO(base64.b64decode(big["content"][1]["data"])))
    assert image.size == (1568, 784)
    (block,) = big["blocks"]
    assert (block["path"], block["thumbnail"]["width"]) == ("big.png", 48)
    assert bad["content"][1]["text"].startswith("[an image is not shown: it is damaged")
    assert bad["blocks"] == []


def test_a_run_for_users_says_what_stays_text(product: Product) -> None:
    done = product.run(product.script(say("ok")), prompt="see @a.txt and @nope.py")
    assert "sent as text: @nope.py (not a file or folder here)" in done.err


def test_an_export_has_the_image_and_the_lines(product: Product) -> None:
    note, _ = sent(product, "what is @red.png and @a.txt")
    exported = product.call("sessions", "export", product.sessions[-1].name, "--format", "html").out
    assert note["content"][1]["data"] in exported and "second line" in exported


async def run(
    product: Product,
    model: str,
    server: FakeProvider,
    *arguments: str,
    prompt: str = "what is @red.png",
) -> Any:
    command = ("run", prompt, "--model", model, "--api-base", server.base_url)
    environment = product.environment | {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    return await asyncio.to_thread(
        product.call_apart, *command, "--sandbox", "off", *arguments, env=environment
    )


DATA = '"data:image/png;base64,'
IN_CHAT = f'"type":"image_url","image_url":{{"url":{DATA}'
IN_ANTHROPIC = '"type":"image","source":{"type":"base64","media_type":"image/png","data":"'


@pytest.mark.parametrize(
    ("wire", "model", "server", "sent"),
    [
        ("auto", "openai/gpt-4o", openai_server, (IN_CHAT,)),
        ("auto", "anthropic/claude-sonnet-4-5", anthropic_server, (IN_ANTHROPIC,)),
        (
            "auto",
            "openai/responses/gpt-5",
            responses_server,
            ('"type":"input_image"', f'"image_url":{DATA}'),
        ),
        ("litellm", "anthropic/claude-sonnet-4-5", anthropic_server, (IN_ANTHROPIC,)),
    ],
)
async def test_each_wire_sends_the_image_in_its_own_form(
    product: Product, wire: str, model: str, server: Any, sent: tuple[str, ...]
) -> None:
    config = product.home / "config/codeagent/config.toml"
    put(config.parent, config.name, f'wire = "{wire}"\n')
    async with server([Turn(text="red")]) as fake:
        done = await run(product, model, fake)
    assert (done.out, fake.rejected) == ("red\n", []), done.err
    body = json.dumps(fake.requests[-1].body, separators=(",", ":"))
    assert [words for words in sent if words not in body] == []


async def test_a_model_that_sees_no_images_gets_none_and_the_prompt_is_not_sent(
    product: Product,
) -> None:
    async with openai_server([Turn(text="?")]) as fake:
        done = await run(product, "openai/gpt-3.5-turbo", fake)
    assert fake.requests == [] and done.code != 0
    assert (
        "the prompt was not sent: openai/gpt-3.5-turbo does not see images: take out @red.png"
        in done.err
    )


async def test_files_that_do_not_fit_into_the_window_are_not_sent(product: Product) -> None:
    put(product.workspace, "long.txt", "twelve words\n" * 1_500)
    prompt = "look at @long.txt and @src/calc.py"
    async with openai_server([Turn(text="?")]) as fake:
        done = await run(product, "openai/gpt-4", fake, prompt=prompt)
    assert fake.requests == [] and done.code != 0
    assert "the prompt was not sent: openai/gpt-4 takes 8,192 tokens in all" in done.err
    assert "name only some lines, as in @file:10-40" in " ".join(done.err.split())


def test_a_pasted_image_is_found_by_its_name_and_by_no_other(product: Product) -> None:
    folder = product.home / "state/codeagent/attachments"
    put(folder, "pasted-1a2b3c4d", drawn()).chmod(0o600)
    put(folder.parent, "secret", "x").chmod(0o600)
    note, said = sent(product, "@image:pasted-1a2b3c4d, @image:../secret @image:gone-1")
    assert [one["name"] for one in note["attached"]] == ["image:pasted-1a2b3c4d"]
    assert said[0].count("that image is no longer kept; paste it again") == 2


def test_without_the_extension_an_at_sign_is_text(product: Product, tmp_path: Path) -> None:
    config = product.home / "config/codeagent/config.toml"
    put(config.parent, config.name, '[extensions]\noff = ["attachments"]\n')
    assert sent(product, "@src/calc.py") == ({}, [])
