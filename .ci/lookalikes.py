"""Writes codeagent/core/names/lookalikes.txt: `make lookalikes`. Takes Unicode's own data from ICU.

ICU is the Unicode Consortium's own library; `icukit-pyicu` (PyPI) brings it along. It is used only here, in a
folder that is removed afterwards.
"""

import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

TARGET = Path("codeagent/core/names/lookalikes.txt")
PACKAGE = "icukit-pyicu"
HEAD = """\
# What looks like ASCII: confusables of Unicode {unicode} (UTS #39), from ICU {icu}, written by `make lookalikes`.
# Copyright Unicode, Inc.; licence Unicode-3.0. A heading names a script; a line has a code point and how it reads.
# Left out: what is not visible, emoji, and letters of living Latin alphabets that read as two ASCII letters (U+00E6).
"""
_READ = """
import icu

checker = icu.SpoofChecker()
compatible = icu.Normalizer2.getNFKCInstance()
living = icu.SpoofChecker.getRecommendedUnicodeSet()
# A letter in another style, such as full width or bold, is a confusable only in part of the data.
styles = ("Font", "Wide", "Small")


def style(letter):
    of = icu.UProperty.DECOMPOSITION_TYPE
    long = icu.UPropertyNameChoice.LONG_PROPERTY_NAME
    return icu.Char.getPropertyValueName(of, icu.Char.getIntPropertyValue(letter, of), long)


print(icu.UNICODE_VERSION, icu.ICU_VERSION)
for code in range(0x80, 0x110000):
    letter = chr(code)
    if 0xD800 <= code < 0xE000 or icu.Char.hasBinaryProperty(letter, icu.UProperty.DEFAULT_IGNORABLE_CODE_POINT):
        continue
    if icu.Char.isUWhiteSpace(letter) or icu.Char.charType(letter) in range(15, 19):
        continue
    if icu.Char.hasBinaryProperty(letter, icu.UProperty.EMOJI_PRESENTATION):
        continue
    reads = checker.getSkeleton(0, letter)
    if not reads.isascii() and style(letter) in styles:
        reads = compatible.normalize(letter)
    script = icu.Script.getScript(letter).getName()
    if not reads.isascii() or not reads.strip() or (script == "Latin" and len(reads) > 1 and living.contains(letter)):
        continue
    print(script, f"{code:04X}", reads)
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary=:all:",
            "--target",
            folder,
        ]
        subprocess.run([*pip, PACKAGE], check=True)
        read = [sys.executable, "-c", _READ]
        said = subprocess.run(
            read, env={"PYTHONPATH": folder}, check=True, capture_output=True, text=True
        )
    versions, *lines = said.stdout.splitlines()
    unicode, icu = versions.split()
    rows = sorted((line.split() for line in lines), key=lambda row: (row[0], int(row[1], 16)))
    text = HEAD.format(unicode=unicode, icu=icu)
    for script, found in groupby(rows, key=lambda row: row[0]):
        text += f"\n[{script}]\n" + "".join(f"{code} {reads}\n" for _, code, reads in found)
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET}: {len(rows)} letters and signs")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
