"""Finds the words with which a line runs commands that cannot be read exactly.

A rule that denies a command asks about every line with such words: what they run cannot be read
exactly. A script that a line only names (`bash x.sh`, `node x.js`, a plain `make`) is not such a
word; see docs/how-to/rules.md.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import HOLE
from codeagent.tools.shell.carrier_table import CARRIERS, Carrier, is_hidden, names_flag
from codeagent.tools.shell.git_carriers import git_carries
from codeagent.tools.shell.programs import (
    PYTHON,
    RUN_BEHIND,
    RUN_THEIR_INPUT,
    RUNNERS,
    SHELLS,
    word_set,
)
from codeagent.tools.shell.quiet_code import (
    awk_is_quiet,
    node_is_quiet,
    perl_is_quiet,
    python_is_quiet,
    sed_is_quiet,
)


@dataclass(frozen=True)
class Feed:
    """What a line may give to the input of its commands."""

    line: str = ""
    """The line, if anything of it may be fed."""
    hidden: bool = False
    """Whether the input may be something else than a text in the line: a pipe, or a file."""

    @property
    def text(self) -> str:
        """Return the text that is fed, after the words that begin it."""
        return self.line.partition("\n")[2] or self.line


NO_FEED = Feed()
_LOADER = re.compile(r"ld(?:-[\w.-]*|-linux[\w.-]*|64)?\.so[\d.]*|ld-musl-[\w.-]*")
"""The dynamic loader, which runs the program that it is given."""
_RUNS_THE_NEXT = """
    !, {, if, then, elif, else, while, until, do, coproc, npx, bunx, pnpx, uvx, pipx run, uv run,
    uv tool run, uv x, poetry run, pipenv run, hatch run, pdm run, rye run, conda run, mamba run,
    micromamba run, bundle exec, npm exec, npm x, pnpm exec, pnpm dlx, yarn exec, yarn dlx,
    yarn run, pnpm run, bun x, asdf exec, mise exec, mise x, rbenv exec, pyenv exec, volta run,
    ccache, sccache, distcc, ssh-agent, dumb-init, tini, cross-env, dotenv, mpirun, mpiexec, srun,
    catatonit, s6-setsid, nix run, flatpak run, snap run, rustup run, coverage run, dbus-launch,
    wine, qemu-user, qemu-x86_64, qemu-aarch64, proot, fakechroot, ts, tsp, chpst, softlimit
"""
_RUNS_THE_ONE_AFTER = """
    docker run, docker exec, docker compose run, docker compose exec, docker-compose run,
    docker-compose exec, docker container run, docker container exec, podman run, podman exec,
    kubectl exec, kubectl run, direnv exec, ip netns exec, ip vrf exec, lxc exec, npm explore,
    apptainer exec, singularity exec, machinectl shell, systemd-nspawn, nix shell, nix develop
"""
_MAY_RUN: dict[str, int] = {
    " ".join(program.split()): own
    for own, programs in enumerate((_RUNS_THE_NEXT, _RUNS_THE_ONE_AFTER))
    for program in programs.split(",")
}
"""Programs that may run the words after these and so many more, though by other names or
elsewhere."""
_TAR = Carrier(
    "-IFT --use-compress-program --to-command --checkpoint-action --rsh-command --rmt-command --info-script"
    " --new-volume-script --files-from"
)
_COPIES = word_set("cp mv ln install dd rsync link symlink")
"""Programs that may give a program another name."""
_PROGRAMS = re.compile(r"(?:.*/)?s?bin|.*\x00", re.DOTALL)
"""A folder that may hold programs."""
_MAKES = word_set("make gmake bmake mk")
_MAKE = Carrier("-fEI --file --makefile --eval --include-dir")
_MAKE_VARIABLE = re.compile(r"([^\s=]*?)(:{0,3}|[+?!])=(.*)", re.DOTALL)
_MAKE_OWN = word_set("SHELL .SHELLFLAGS MAKE MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES")
_HIDES = re.compile(rf"[$`'\"\\{HOLE}]")
"""Characters with which a text can hide what it runs."""
_SPLIT = re.compile(r"(?:-[a-zA-Z0]*S|--s[a-z-]*=?)(.*)", re.DOTALL)
_TAR_BUNDLE = re.compile(r"[A-Za-z]*[IFT][A-Za-z]*")
_AWK_FLAGS = word_set("""
    --posix --csv --re-interval --sandbox --version --help --field-separator --assign
    --characters-as-bytes --traditional --lint
""")
"""Long flags of awk that load no code."""
_NODE_VALUED = word_set("""
    -r --require --import --loader --experimental-loader -C --conditions
""")
_EVALUATING_MODULES = word_set("""
    timeit pdb trace cProfile profile runpy code webbrowser IPython bdb pty idlelib
""")
_LEADING = word_set("git env node nodejs perl")
"""Those of `_SPECIAL` whose own words end before their first operand."""
_SHOWN = re.compile(r"[^\w.:=/+@-]")
_LONGEST_SHOWN = 24


def carries(words: Sequence[str], feed: Feed = NO_FEED) -> str:
    """Return the words that make the command run something that cannot be read, shortened for a
    message; else empty."""
    name = words[0].rpartition("/")[2] or words[0]
    found = _carried(name, words, feed)
    if found is None and any(map(is_hidden, _before_operands(name, words))):
        found = "with an unknown flag"
    return "" if found is None else f"{_shown(name)} {_shown(found)}".strip()


def _before_operands(name: str, words: Sequence[str]) -> list[str]:
    """Return the words among which a known program looks for its flags; none if it is unknown."""
    known = _table_row(name)
    if known is not None:
        return _own_words(words, leading=known.leading, beyond=bool(known.words))
    leads = name in RUNNERS or name in SHELLS or name in _LEADING or PYTHON.fullmatch(name)
    if leads or name in _SPECIAL or name in RUN_BEHIND:
        return _own_words(words, leading=bool(leads))
    return []


def _own_words(words: Sequence[str], *, leading: bool, beyond: bool = False) -> list[str]:
    """Return a program's words without those after `--`, unless `beyond`, and if `leading` without
    its first operand and those after that."""
    own = list(words[1:])
    if leading:
        ends = (
            at
            for at, word in enumerate(own)
            if not word.startswith("-") and (not at or own[at - 1][:1] != "-")
        )
        own = own[: next(ends, len(own))]
    return own[: own.index("--")] if "--" in own and not beyond else own


def program_within(words: Sequence[str]) -> tuple[int, int] | None:
    """Return how many words the program and its subcommand have, and how many more are its own;
    None if it runs none.

    Flags before the subcommand are skipped.
    """
    name = words[0].rpartition("/")[2]
    name = name if name.strip("{ ") else "{"  # the grammar takes several of them for one word
    at = [0, *(at for at, word in enumerate(words) if at and not word.startswith("-"))][:3]
    for size in range(len(at), 0, -1):
        own = _MAY_RUN.get(" ".join([name, *(words[one] for one in at[1:size])]))
        if own is not None:
            return at[size - 1] + 1, own
    return None


def renamed(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield what may be run by another name or through a variable, without the words that may
    follow."""
    name = words[0].rpartition("/")[2]
    if name in _COPIES or name == "cat":
        for word in words[1:]:
            folder, _, source = (word.partition("=")[2] if name == "dd" else word).rpartition("/")
            programs = _PROGRAMS.fullmatch(folder) is not None
            if not source or word.startswith("-"):
                continue
            is_named = HOLE not in source and (name != "cat" or bool(folder))
            if programs or source == HOLE or is_named:
                yield [source]
    elif name in _MAKES:
        for word in words[1:]:
            values = match[3].split() if (match := _MAKE_VARIABLE.fullmatch(word)) else []
            yield from (values[at:] for at in range(len(values)))


def _carried(name: str, words: Sequence[str], feed: Feed) -> str | None:
    """Return the word that carries a command, empty if it is the program itself; None if there is
    none."""
    if _LOADER.fullmatch(name):
        return ""
    if (special := _SPECIAL.get(name)) is not None:
        return special(words, feed)
    if PYTHON.fullmatch(name):
        return _python(words, feed)
    known = _table_row(name)
    if known is None:
        return _run_input(name, words, feed)
    found = _by(known, words)
    return _run_input(name, words, feed) if found is None else found


def _table_row(name: str) -> Carrier | None:
    return CARRIERS.get(name) or CARRIERS.get(re.sub(r"[\d.]+$", "", name))


def _by(known: Carrier, words: Sequence[str]) -> str | None:
    if known.always:
        return ""
    flags, dashed = known.flags.split(), known.dashed.split()
    for word in _own_words(words, leading=known.leading, beyond=bool(known.words)):
        if word.startswith("-") and names_flag(word, flags, dashed):
            return word.partition("=")[0]
        if known.words and re.fullmatch(known.words, word, re.DOTALL):
            return word if word.startswith("-") else ""
        if word == HOLE and (flags or dashed):
            return "with a word that is not known"
    operands = [word for word in words[1:] if not word.startswith("-")]
    return (
        operands[0]
        if known.first and re.fullmatch(known.first, " ".join(operands[:2]), re.DOTALL)
        else None
    )


def _run_input(name: str, words: Sequence[str], feed: Feed) -> str | None:
    """Return empty if the program runs its input, and something is fed to it."""
    needed = RUN_THEIR_INPUT.get(name)
    if needed is None or not feed.line:
        return None
    operands = [word for word in words[1:] if not word.startswith("-")]
    return "" if len(operands) < needed or _is_input(operands[0]) else None


def _is_input(word: str) -> bool:
    return word in (HOLE, "-") or word.startswith(("/dev/", "/proc/"))


def _make(words: Sequence[str], feed: Feed) -> str | None:
    for word in words[1:]:
        match = None if word.startswith("-") else _MAKE_VARIABLE.fullmatch(word)
        if match is not None and (
            match[2] == "!" or match[1] in _MAKE_OWN or _HIDES.search(match[3])
        ):
            return f"{match[1]}="
    return _by(_MAKE, words)


def _env(words: Sequence[str], feed: Feed) -> str | None:
    """`env -S` has escapes of its own: `\\_` is a blank, `${X}` a variable."""
    for at, word in enumerate(words[1:], start=1):
        match = _SPLIT.fullmatch(word)
        if match is not None and re.search(
            rf"[\\${HOLE}]", match[1] or "".join(words[at + 1 : at + 2])
        ):
            return "-S"
    return None


def _tar(words: Sequence[str], feed: Feed) -> str | None:
    bundled = len(words) > 1 and _TAR_BUNDLE.fullmatch(words[1])
    return words[1] if bundled else _by(_TAR, words)


def _sed(words: Sequence[str], feed: Feed) -> str | None:
    scripts: list[str] = []
    operands: list[str] = []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            operands += rest
            break
        if word.startswith("--"):
            name, given, value = word.partition("=")
            if len(name) > 3 and "--expression".startswith(name):
                scripts.append(value if given else "".join(rest[:1]))
                rest = rest if given else rest[1:]
            elif name in ("--file", "--fil", "--fi", "--f"):
                return "--file"
        elif word.startswith("-") and len(word) > 1:
            cluster = re.fullmatch(
                r"-[nErsuz]*(?:(?P<in>[i].*)|l\d*|(?P<code>e)(?P<glued>.*)|(?P<file>f).*)?",
                word,
                re.DOTALL,
            )
            if cluster is None or cluster["file"]:
                return "-f" if cluster else word[:2]
            if cluster["code"]:
                scripts.append(cluster["glued"] or "".join(rest[:1]))
                rest = rest if cluster["glued"] else rest[1:]
        else:
            operands.append(word)
    if not scripts:
        scripts = operands[:1]
    return None if sed_is_quiet("\n".join(scripts)) else "e"


def _awk(words: Sequence[str], feed: Feed) -> str | None:
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        if word.startswith("--"):
            if not any(long.startswith(word.partition("=")[0]) for long in _AWK_FLAGS):
                return word.partition("=")[0]
            rest = rest[1:] if word in ("--field-separator", "--assign") else rest
        elif word[1] in "Fv":
            rest = rest if len(word) > 2 else rest[1:]
        elif not re.fullmatch("-[bcPrS]+", word):
            return word[:2]
    rest = rest[1:] if rest[:1] == ["--"] else rest
    return None if not rest or awk_is_quiet(rest[0]) else "with a script that may run commands"


def _python(words: Sequence[str], feed: Feed) -> str | None:
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word.startswith("--"):
            rest = rest[1:] if word == "--check-hash-based-pycs" else rest
            continue
        for at, letter in enumerate(word[1:], start=2):
            value = word[at:] or "".join(rest[:1])
            if letter == "c":
                return None if python_is_quiet(value) else "-c"
            if letter == "m":
                return (
                    f"-m {value}"
                    if value.partition(".")[0] in _EVALUATING_MODULES or HOLE in value
                    else None
                )
            if letter in "WX":
                rest = rest if word[at:] else rest[1:]
                break
    script = rest[0] if rest else "-"
    if not feed.line or not (_is_input(script) or "<(" in feed.line):
        return None
    shown = python_is_quiet(feed.text) if not feed.hidden and script == "-" else False
    return None if shown else "with code from its input"


def _node(words: Sequence[str], feed: Feed) -> str | None:
    for at, word in enumerate(words[1:], start=1):
        if words[at - 1] in _NODE_VALUED:
            continue
        if re.match(r"--(?:ev|pri)", word) or re.fullmatch(r"-[a-z]*[ep][a-z]*", word):
            name, given, value = word.partition("=")
            code = value if given else "".join(words[at + 1 : at + 2])
            return None if node_is_quiet(code) else name
        if not word.startswith("-"):
            return "with code from its input" if feed.line and _is_input(word) else None
    if not feed.line or words[1:2] in (["-v"], ["--version"], ["--help"]):
        return None
    return None if not feed.hidden and node_is_quiet(feed.text) else "with code from its input"


def _perl(words: Sequence[str], feed: Feed) -> str | None:
    for at, word in enumerate(words[1:], start=1):
        if not word.startswith("-") or word == "-":
            return "with code from its input" if feed.line and _is_input(word) else None
        match = re.fullmatch(
            r"-[acfnpstuwWXTtUv\dl]*(?:i[^\s]*|(?P<code>[eE])(?P<glued>.*)|0[xX]?\w*|I.*)?",
            word,
            re.DOTALL,
        )
        if match is None:
            return word[:2]
        if match["code"]:
            code = match["glued"] or "".join(words[at + 1 : at + 2])
            others = [
                other
                for other in words[at + 1 :]
                if re.fullmatch(r"-[a-zA-Z]*[eEM].*", other, re.DOTALL)
            ]
            return None if perl_is_quiet(code) and not others else "-e"
    return "with code from its input" if feed.line and words[1:2] != ["-v"] else None


def _git(words: Sequence[str], feed: Feed) -> str | None:
    return git_carries(words)


def _rename(words: Sequence[str], feed: Feed) -> str | None:
    """The rename of Perl runs its first operand as code; the one of util-linux has plain words
    there."""
    code = next((word for word in words[1:] if not word.startswith("-")), "")
    return None if re.fullmatch(r"[\w.-]*", code) or perl_is_quiet(code) else ""


_SPECIAL: dict[str, Callable[[Sequence[str], Feed], str | None]] = {
    "git": _git,
    "env": _env,
    "sed": _sed,
    "gsed": _sed,
    "tar": _tar,
    "gtar": _tar,
    "bsdtar": _tar,
    "rename": _rename,
    "prename": _rename,
    "perl": _perl,
    "node": _node,
    "nodejs": _node,
    **dict.fromkeys(_MAKES, _make),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _awk),
}


def _shown(word: str) -> str:
    """Return the beginning of a word without anything that a terminal or a reader could mistake."""
    return _SHOWN.sub(" ", word)[:_LONGEST_SHOWN].strip()
