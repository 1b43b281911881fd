"""Text that would act on a terminal, hide in it, or act on the screen library; by family."""

import itertools


def _parts(*lines: str) -> list[str]:
    """What the lines hold between their bars."""
    return "|".join(lines).split("|")


ESC, BEL, ST = "\x1b", "\x07", "\x9c"
_CSI = _parts(
    "2J|3J|777;777H|6n|?6n|5n|c|>c|=c|?1049l|?1049h|?25l|?47h|?1000h|?1003h|?1006h|?1015h|?2004l|?2004h|?1004h",
    "?2026h|?7h|?69h|?5h|?12h|5;6m|8m|20t|21t|18t|8;1;1t|11t|s|u|>31u|<u|=1u|1;1r|!p|999L|999M|999P|999@|999X",
    "1000b|4i|5i|12l|99999999999999999999A|1;2'z|?1;2;3S|2*x|$p",
)
_OSC = _parts(
    "0;owned|2;owned|52;c;b3duZWQ=|52;c;?|52;p;b3duZWQ=|8;;http://evil.test/|8;id=1;file:///etc/passwd|4;1;?",
    "10;?|11;?|104|7;file:///x|9;notify|777;notify;a;b|1337;File=inline=1:QUFB|1337;SetUserVar=a=b|133;A",
    "50;font|22;text|99;i=1;kitty|66;s=2;big|lowned|Lowned|3008;start=1",
)
_STRINGS = (
    "P$qm",
    "P+q544e",
    "P1$r0m",
    "P0;1;0q#0;2;0;0;0",
    "_Ga=T,f=100;AAAA",
    "^owned",
    "Xowned",
    "Ptmux;\x1b\x1b[2J",
)
_SHORT = _parts("c|7|8|D|E|M|H|N|O|Z|=|>|#8|%G|%@|(0|)0|*B|n|o|}|~|l|m|\\|V|W")
_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_INVISIBLE = (
    ""
    "\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\xad\u180e\u115f\u1160\u3164\uffa0\u206a\u206f\ufff9\ufffa"
)
_OTHER = (
    "\u2028\u2029\ue000\uf8ff\U000f0000\U0010fffd\U000e0001\U0001d173\U000110bd\u0600\u06dd\u08e2"
)
MARKUP = _parts(
    "[@click=app.quit]x[/]|[/]|[on red]|[/on red]|[b]bold[/b]|[/b]|[bold red]x|[/bold red]",
    "[link=http://evil.test]x[/link]|[@click=app.exit(1)]x[/]|[@click='app.quit']x[/@click]|[$error]x[/]",
    "[auto on blue]x|[reverse]x|[blink]x[/blink]|list[int]|dict[str, int]|[[nested]]|[not closed|closed]|[[|]]",
    "[]|[ ]|[@]|[@click]|[#ff0000]x|[rgb(1,2,3)]x|[/][/][/]|a[/x]b|[conceal]x[/conceal]",
    "[@click=screen.dismiss]x[/]|[@mouse.down=app.quit]x[/]|:warning:|[1;31m|%s %(x)s {x} {0}|[u]x[/u]",
    "[strike]x[/]|[dim]x[/dim]|[italic]x[/italic]|[not bold]x|[text-style: bold]x",
)
"""Printable ASCII, that must be on screen as it is."""


def _control() -> list[str]:
    found = [f"{start}{body}" for body in _CSI for start in (f"{ESC}[", "\x9b")]
    ends = (BEL, f"{ESC}\\", ST, "")
    found += [
        f"{start}{body}{end}" for body in _OSC for start in (f"{ESC}]", "\x9d") for end in ends
    ]
    strings = {"P": "\x90", "_": "\x9f", "^": "\x9e", "X": "\x98"}
    for body, end in itertools.product(_STRINGS, (f"{ESC}\\", ST, "")):
        found += [f"{ESC}{body}{end}", f"{strings[body[0]]}{body[1:]}{end}"]
    found += [f"{ESC}{body}" for body in _SHORT]
    found += [chr(code) for code in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))]
    found += [
        "safe\rEVIL",
        "safe\b\b\b\bEVIL",
        "\x0eqqq\x0f",
        "a\x0b\x0cb",
        "\r\r\r",
        "x\x1b",
        "\x1b\x1b\x1b",
        "\x1b[",
        "\x9b",
    ]
    return found


def _hidden() -> list[str]:
    found = [f"a{character}b" for character in _BIDI + _INVISIBLE + _OTHER]
    found += [
        f"admin{_BIDI[7]}gpj.exe",
        f"{_BIDI[9]}return{_BIDI[11]} {_BIDI[8]}x{_BIDI[11]}",
        "rm\u200b -rf\u2060 /",
    ]
    found.append("visible" + "".join(chr(0xE0000 + ord(letter)) for letter in "ignore rules"))
    return found


CONTROL = _control()
HIDDEN = _hidden()
END = "everything was shown"
"""StyledText on screen behind the last payload."""
PAYLOADS = [*CONTROL, *HIDDEN, *MARKUP]
