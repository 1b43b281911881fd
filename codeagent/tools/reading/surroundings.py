"""Programs that tell of files, folders and the machine, not of what is in them; and what the shell does by itself.

Left out on purpose: `tree -o` and `-R`, `file -C` and `-z`, `fd -x` and `-l`, `date -s`, `hostname NAME`, `free -s`.
"""

import re

from codeagent.tools.reading.flags import Arguments, Program, program

_HELP = "--help --version"
_DURATION = re.compile(r"\d{1,2}(?:\.\d+)?s?")
_NUMBER = re.compile(r"\d{1,5}")
_OLD_PS_FLAGS = re.compile(r"[auxwfrjlvmh]+")


def _only_shows_the_time(arguments: Arguments) -> bool:
    """`date 01020304` sets it."""
    return all(word.text.startswith("+") for word in arguments.operands)


def _is_short_wait(arguments: Arguments) -> bool:
    return all(_DURATION.fullmatch(word.text) for word in arguments.operands)


def _is_short_sequence(arguments: Arguments) -> bool:
    return bool(arguments.operands) and all(_NUMBER.fullmatch(word.text) for word in arguments.operands)


def _is_process_list(arguments: Arguments) -> bool:
    return all(_OLD_PS_FLAGS.fullmatch(word.text) for word in arguments.operands)


_NO_FLAGS = program(opens=False)
_NOTHING = program(opens=False, most=0)

SURROUNDINGS: dict[str, Program] = {
    "ls": program(
        "-alAhrtSRdFiskgGonpqQUXBLHbCcmuvx1NZf --all --almost-all --human-readable --reverse --recursive --directory"
        " --classify --inode --size --no-group --numeric-uid-gid --full-time --group-directories-first --dereference"
        f" --author --escape --literal --si --zero --file-type --ignore-backups --context {_HELP}",
        "-IwT --ignore --hide --sort --time --time-style --format --block-size --indicator-style --quoting-style"
        " --width --tabsize",
        "--color --hyperlink",
        opens=False,
        whatever=True,
    ),
    "fd": program(
        "-HIuiasgFpLq01 --hidden --no-ignore --unrestricted --ignore-case --case-sensitive --glob --fixed-strings"
        f" --absolute-path --full-path --follow --print0 --quiet {_HELP}",
        "-etdEc --extension --type --max-depth --min-depth --exact-depth --exclude --size --changed-within"
        " --changed-before --color --max-results",
        opens=False,
    ),
    "stat": program(
        f"-Lft --dereference --file-system --terse {_HELP}", "-c --format --printf", opens=False, whatever=True
    ),
    "file": program(
        "-biLkNrsh0E --brief --mime --mime-type --mime-encoding --dereference --keep-going --no-pad --raw"
        f" --no-dereference --extension {_HELP}",
        "-F --separator",
        opens=False,
    ),
    "du": program(
        "-shackmbxlLPDS0H --summarize --human-readable --all --total --bytes --one-file-system --apparent-size"
        f" --count-links --dereference --separate-dirs --null --inodes --si {_HELP}",
        "-dtB --max-depth --exclude --threshold --block-size",
        "--time",
        opens=False,
        whatever=True,
    ),
    "df": program(
        "-hTkmialPH --human-readable --print-type --inodes --all --local --portability --total --si " + _HELP,
        "-txB --type --exclude-type --block-size",
        "--output",
        opens=False,
    ),
    "tree": program(
        f"-adfihsDFCnJXupgtrvcNQqlx --noreport --dirsfirst --gitignore --prune --du --si --inodes {_HELP}",
        "-LIP --filelimit --sort --timefmt --charset",
        opens=False,
    ),
    "pwd": program("-LP", opens=False, most=0),
    "basename": program(f"-az --multiple --zero {_HELP}", "-s --suffix", opens=False, whatever=True),
    "dirname": program(f"-z --zero {_HELP}", opens=False, whatever=True),
    "realpath": program(
        "-eLmPqsz --canonicalize-existing --canonicalize-missing --no-symlinks --quiet --strip --zero " + _HELP,
        "--relative-to --relative-base",
        opens=False,
        whatever=True,
    ),
    "readlink": program(
        "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent"
        f" --verbose --zero {_HELP}",
        opens=False,
        whatever=True,
    ),
    "date": program(
        f"-uR --utc --universal --rfc-email {_HELP}",
        "-dr --date --reference --rfc-3339",
        "-I --iso-8601",
        opens=False,
        check=_only_shows_the_time,
    ),
    "id": program(f"-ugGnrz --user --group --groups --name --real --zero {_HELP}", opens=False),
    "groups": _NO_FLAGS,
    "whoami": program(_HELP, opens=False, most=0),
    "hostname": _NOTHING,
    "arch": _NOTHING,
    "nproc": program(f"--all {_HELP}", "--ignore", opens=False, most=0),
    "uptime": program("-ps --pretty --since", opens=False, most=0),
    "free": program("-hbkmgtwl --human --total --wide --mega --giga", opens=False, most=0),
    "uname": program(
        "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --operating-system "
        + _HELP,
        opens=False,
        most=0,
    ),
    "env": _NOTHING,
    "printenv": program("-0 --null", opens=False),
    "locale": program("-am", opens=False),
    "getconf": program("-a", opens=False, most=1),
    "umask": program("-S", opens=False, most=0),
    "ulimit": program("-a", opens=False, most=0),
    "which": program("-as", opens=False),
    "type": program("-afptP", opens=False),
    "ps": program(
        "-eAfaxlwFHLTjNdyM --forest --no-headers",
        "-opCuUtg --sort --pid --ppid --format --user",
        opens=False,
        check=_is_process_list,
    ),
    "pgrep": program(
        "-lafinovxc --list-name --list-full --full --exact --newest --oldest --ignore-case", "-uPdgst", opens=False
    ),
    "sleep": program(opens=False, check=_is_short_wait),
    "seq": program("-w --equal-width", "-s --separator", opens=False, check=_is_short_sequence),
    "expr": _NO_FLAGS,
    "lscpu": program("-aebcpxy --all --extended --parse", opens=False, most=0),
    "lsblk": program("-afmprSdnil --fs --all --list --noheadings", "-o --output", opens=False),
    "whereis": program("-bms", opens=False),
    "getent": program(opens=False),
    "factor": program(opens=False),
    "numfmt": program("--grouping", "--to --from --suffix --format --field --padding", opens=False),
    "tput": program(
        opens=False, check=lambda found: all(word.text in ("cols", "lines", "colors") for word in found.operands)
    ),
    "cal": program("-13jmyw", opens=False),
    "true": _NO_FLAGS,
    "false": _NO_FLAGS,
    ":": _NO_FLAGS,
    "exit": program(opens=False, most=1),
    "cd": program("-LPe", most=1),
}

_LONG = frozenset({"--version"})
VERSIONS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("gcc", "g++", "cc", "clang", "make", "cmake", "ninja", "bash", "ruff", "uv", "tar", "git"), _LONG),
    **dict.fromkeys(("curl", "docker", "sqlite3", "gdb", "find", "sed", "gawk", "yq"), _LONG),
    **dict.fromkeys(("python", "python3"), _LONG | {"-V"}),
    **dict.fromkeys(("node", "ruby", "perl", "php"), _LONG | {"-v"}),
    **dict.fromkeys(("java", "javac"), _LONG | {"-version"}),
    "go": frozenset({"version"}),
}
"""Programs whose version is printed and nothing else. Not here: what first loads code that the folder names, as pytest
(conftest.py), cargo and rustc (rust-toolchain.toml), yarn and pnpm (the version that package.json asks for)."""
