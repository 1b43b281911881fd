"""What passes for ASCII in a text."""

import random
import sys
from collections import defaultdict
from subprocess import run

from codeagent.core.host_files import parse, table
from codeagent.core.lookalikes import lookalikes
from tests.table import for_each

COMMANDS = [
    "sudo",
    "rm",
    "-rf",
    "/etc;",
    "curl",
    "example.com/x",
    "|",
    "sh",
    "&&",
    "git",
    "push",
    "'main'",
    ">",
    "out",
]


def read_as(text: str) -> str:
    odd = lookalikes(text)
    return "".join(
        odd.get(at, letter if letter.isascii() else "?") for at, letter in enumerate(text)
    )


@for_each(
    ("text", "reads"),
    [
        ("сор", "cop"),
        ("рсе", "pce"),
        ("раypal", "paypal"),
        ("gіt", "git"),
        ("fınd", "find"),
        ("ﬁle", "file"),
        ("𝐜𝐩", "cp"),
        ("ｌｓ", "ls"),
        ("ΡΑΤΗ", "PATH"),
        ("ls；rm", "ls;rm"),
        ("ノetc", "/etc"),
        ("∕etc", "/etc"),
        ("‘x’", "'x'"),
        ("–rf", "-rf"),
        ("sudo сор x", "sudo cop x"),
        ("echo hi｜sh", "echo hi|sh"),
        ("rm ./x 'ノ'", "rm ./x '/'"),
    ],
)
def test_what_passes_for_ascii_is_found(text: str, reads: str) -> None:
    assert read_as(text) == reads


def test_a_word_before_the_first_one_of_its_language_counts_outside_of_quotes() -> None:
    assert lookalikes("сор файл") == {0: "c", 1: "o", 2: "p"}
    assert lookalikes("echo 'с файлом'") == {}


def test_letters_of_another_style_count_in_every_word() -> None:
    assert lookalikes("é𝐚") == {1: "a"}


def test_one_letter_of_another_script_makes_the_look_alikes_of_its_word_count() -> None:
    assert lookalikes("привет") == {}
    assert lookalikes("привeт") == {1: "p"}


@for_each(
    "text",
    [
        "git commit -m '修正：ログインの不具合（ノート）'",
        "git commit -m '修复“登录”问题，第１回；APIノート'",
        "git commit -m '한국어 커밋 메시지'",
        "git commit -m 'Исправил ошибку с кодировкой и с путём'",
        "git commit -m 'hata ayıklama değişiklik'",
        "git commit -m 'إصلاح ٥ أخطاء'",
        "git commit -m 'תיקון ו באג'",
        "git commit -m 'हिन्दी १०० संदेश'",
        "echo cœur naïve ße æon 5μs kΩ",
        "echo ℹ\ufe0f ➕ 👩\u200d💻",
    ],
)
def test_text_in_another_script_is_not_a_finding(text: str) -> None:
    assert lookalikes(text) == {}


def test_every_look_alike_in_a_command_is_found() -> None:
    """Two thousand payloads: each letter and sign of the table, where a command has the one that it
    passes for."""
    likenesses: dict[str, list[str]] = defaultdict(list)
    for line, _ in parse(table("lookalikes")):
        code, _, reads = line.partition(" ")
        likenesses[reads].append(chr(int(code, 16)))
    tried = 0
    for reads, letters in likenesses.items():
        words = [word for word in COMMANDS if reads in word] or [f"a{reads}z"]
        for letter in letters:
            word = random.Random(letter).choice(words)
            at = word.index(reads)
            assert at in lookalikes(word[:at] + letter + word[at + len(reads) :]), (
                f"{letter!r} in {word}"
            )
            tried += 1
    assert tried > 1800


def test_ascii_text_needs_neither_the_table_nor_a_library() -> None:
    code = "import sys; from codeagent.core.lookalikes import lookalikes, _known; lookalikes('ls -l'); "
    code += "assert 'regex' not in sys.modules and not _known.cache_info().currsize"
    assert run([sys.executable, "-c", code], check=False).returncode == 0
