"""Programs that only read, and the flags with which they do.

A program's harmless flags are listed: those that, by their description, change only what is
printed. Left out on purpose are flags that write (`sort -o`, `tree -o`, `file -C`, the second
operand of `uniq` and `xxd`), that run something (`rg --pre`, `rg -z`, `fd -x`, `file -z`,
`diff -l`), that take file names out of a file (`--files0-from`), that wait for more (`tail -f`,
`tail +5f`, `free -s`), that set something (`date -s`, `date 01020304`, `hostname NAME`), and rarely
used ones. yq is missing, because two programs have that name, with different flags.
"""

import re
from collections.abc import Callable

from codeagent.core.lazy_regex import lazy_regex
from codeagent.tools.shell.programs import word_set
from codeagent.tools.shell.strict import ParsedFlags, Program

_HELP = "--help --version"
_FORMAT = lazy_regex(
    r"(?:[^%\\]|%%|%[-+ #0]*\d{0,3}(?:\.\d{0,3})?[sdiuoxXeEfgGcbq]|\\[nrte\\\"'abfv])*"
)
_SUM = Program(
    f"-bctwz --binary --text --tag --zero --quiet --status --strict --warn --ignore-missing --check {_HELP}",
    whatever=True,
)
_GREP = Program(
    "-EFGPinvwxclLqshHoabzZrRyUIT -# --extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case"
    " --no-ignore-case --invert-match --word-regexp --line-regexp --count --files-with-matches --files-without-match"
    " --quiet --silent --no-messages --with-filename --no-filename --only-matching --line-number --byte-offset --null"
    f" --null-data --recursive --dereference-recursive --text --initial-tab --line-buffered {_HELP}",
    "-efmABCdD --regexp --file --max-count --after-context --before-context --context --include --exclude"
    " --exclude-dir --label --binary-files --directories --devices --group-separator",
    "--color --colour",
    patterns=1,
    pattern_flags="-ef --regexp --file",
    whatever=True,
)
_RIPGREP = Program(
    "-niSswFxvclopPLNHIuUqab0 --line-number --no-line-number --ignore-case --smart-case --case-sensitive --word-regexp"
    " --fixed-strings --line-regexp --invert-match --count --count-matches --files-with-matches --files-without-match"
    " --only-matching --pretty --pcre2 --with-filename --no-filename --heading --no-heading --hidden --no-hidden"
    " --no-ignore --no-ignore-vcs --no-ignore-parent --no-config --files --type-list --json --stats --vimgrep --trim"
    " --passthru --column --no-column --multiline --multiline-dotall --quiet --text --null --follow --one-file-system"
    f" --byte-offset --crlf --no-messages {_HELP}",
    "-eABCgtTmMrdjE --regexp --after-context --before-context --context --glob --iglob --type --type-not --max-count"
    " --max-columns --max-depth --max-filesize --replace --sort --sortr --color --colors --threads --encoding"
    " --context-separator --path-separator",
    patterns=1,
    pattern_flags="-e --regexp",
)
_ENDS_OF_FILES = f"-qvz -# --quiet --silent --verbose --zero-terminated {_HELP}"
_NO_FLAGS = Program(opens=False)
_NOTHING = Program(opens=False, most=0)
_LONG = frozenset({"--version"})
VERSION_FLAGS: dict[str, frozenset[str]] = {
    **dict.fromkeys(word_set("gcc g++ cc clang make cmake ninja bash ruff uv tar git"), _LONG),
    **dict.fromkeys(word_set("curl docker sqlite3 gdb find sed gawk yq"), _LONG),
    **dict.fromkeys(("python", "python3"), _LONG | {"-V"}),
    **dict.fromkeys(("node", "ruby", "perl", "php"), _LONG | {"-v"}),
    **dict.fromkeys(("java", "javac"), _LONG | {"-version"}),
    "go": frozenset({"version"}),
}
"""Programs whose version is printed and nothing else. Not here: what first loads code that the
folder names, as pytest (conftest.py), cargo and rustc (rust-toolchain.toml), yarn and pnpm (the
version that package.json asks for)."""


def _is_format(arguments: ParsedFlags) -> bool:
    """Whether printf only prints: bash's own assigns variables with `%n`, and with the flag
    `-v`."""
    first = arguments.operands[:1]
    return bool(first) and not first[0].globs and _FORMAT.fullmatch(first[0].text) is not None


def _operands(pattern: str, *, least: int = 0) -> Callable[[ParsedFlags], bool]:
    """Accept operands if all match and there are at least so many."""
    known = re.compile(pattern, re.DOTALL)
    return lambda found: (
        len(found.operands) >= least and all(known.fullmatch(word.text) for word in found.operands)
    )


def _imports_nothing(arguments: ParsedFlags) -> bool:
    """Whether a jq program does not import other files as modules."""
    return all(
        re.search(r"\b(?:import|include)\b", word.text) is None for word in arguments.operands[:1]
    )


def _in_local_files(arguments: ParsedFlags) -> bool:
    """Accept databases of this machine: hosts and networks are asked of name servers, which learn
    the name."""
    return bool(arguments.operands) and arguments.operands[0].text in {
        "passwd",
        "group",
        "services",
        "protocols",
    }


TEXT_PROGRAMS: dict[str, Program] = {
    "cat": Program(
        "-nAbseEtTvu --number --show-all --number-nonblank --squeeze-blank --show-ends --show-tabs"
        f" --show-nonprinting {_HELP}",
        whatever=True,
    ),
    "head": Program(_ENDS_OF_FILES, "-nc --lines --bytes", whatever=True),
    "tail": Program(_ENDS_OF_FILES, "-nc --lines --bytes", check=_operands(r"(?!\+).*")),
    "wc": Program(
        f"-lwcmL --lines --words --bytes --chars --max-line-length {_HELP}",
        "--total",
        opens=False,
        whatever=True,
    ),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RIPGREP,
    "sort": Program(
        "-nrufhVbscCgMRzdim --numeric-sort --reverse --unique --ignore-case --human-numeric-sort --version-sort"
        " --stable --check --merge --ignore-leading-blanks --general-numeric-sort --month-sort --zero-terminated"
        f" --dictionary-order --debug {_HELP}",
        "-kt --key --field-separator --sort",
    ),
    "uniq": Program(
        f"-cduizD --count --repeated --unique --ignore-case --zero-terminated {_HELP}",
        "-fsw --skip-fields --skip-chars --check-chars",
        "--all-repeated --group",
        most=1,
    ),
    "cut": Program(
        f"-snz --complement --only-delimited --zero-terminated {_HELP}",
        "-dfcb --delimiter --fields --characters --bytes --output-delimiter",
        whatever=True,
    ),
    "tr": Program(
        f"-dscCt --delete --squeeze-repeats --complement --truncate-set1 {_HELP}", opens=False
    ),
    "diff": Program(
        "-urqNwbBiaspydtTE --recursive --brief --new-file --ignore-all-space --ignore-space-change --ignore-blank-lines"
        " --ignore-case --text --report-identical-files --show-c-function --side-by-side --suppress-common-lines"
        " --strip-trailing-cr --minimal --expand-tabs --no-dereference --ignore-tab-expansion --ignore-trailing-space"
        f" --left-column {_HELP}",
        "-UCxIWL --exclude --ignore-matching-lines --width --label",
        "-c --unified --context --color",
    ),
    "cmp": Program(
        f"-lsb --verbose --silent --quiet --print-bytes {_HELP}",
        "-ni --bytes --ignore-initial",
        whatever=True,
    ),
    "comm": Program(
        f"-123iz --check-order --nocheck-order --total --zero-terminated {_HELP}",
        "--output-delimiter",
        whatever=True,
    ),
    "paste": Program(f"-sz --serial --zero-terminated {_HELP}", "-d --delimiters", whatever=True),
    "join": Program(
        f"-iz --ignore-case --header --check-order --nocheck-order {_HELP}",
        "-12jtaveo",
        whatever=True,
    ),
    "fold": Program(f"-bs --bytes --spaces {_HELP}", "-w --width", whatever=True),
    "expand": Program(f"-i --initial {_HELP}", "-t --tabs", whatever=True),
    "column": Program(
        f"-txe --table {_HELP}",
        "-soc --separator --output-separator --output-width --table-columns",
    ),
    "nl": Program(
        f"-p --no-renumber {_HELP}",
        "-bhfinsvwld --body-numbering --number-width --number-format --number-separator --starting-line-number",
        whatever=True,
    ),
    "tac": Program(f"-br --before --regex {_HELP}", "-s --separator", whatever=True),
    "rev": Program(_HELP, whatever=True),
    "od": Program(
        f"-abcdfilosxv --output-duplicates {_HELP}",
        "-AtjN --address-radix --format --skip-bytes --read-bytes",
        "-w --width",
        whatever=True,
    ),
    "xxd": Program("-puibe", "-lcgs", most=1, clusters=False),
    "hexdump": Program("-Cbcdoxv --canonical --no-squeezing", "-nse --length --skip --format"),
    "strings": Program("-aw --all", "-nte --bytes --radix --encoding"),
    "base64": Program(f"-diD --decode --ignore-garbage {_HELP}", "-w --wrap", most=1),
    "cksum": _SUM,
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha224sum": _SUM,
    "sha256sum": _SUM,
    "sha384sum": _SUM,
    "sha512sum": _SUM,
    "b2sum": _SUM,
    "jq": Program(
        "-rcensMCSjaRh --raw-output --compact-output --exit-status --null-input --slurp --monochrome-output"
        f" --color-output --sort-keys --join-output --ascii-output --raw-input --tab --unbuffered {_HELP}",
        "--indent",
        patterns=1,
        whatever=True,
        check=_imports_nothing,
    ),
    "shuf": Program("-ez --echo --zero-terminated", "-ni --head-count --input-range"),
    "iconv": Program("-cl --list", "-ft --from-code --to-code"),
    "zcat": Program("-f"),
    "zipinfo": Program("-1lmtz", opens=False),
    "unzip": Program("-lvZ1qt", opens=False, check=lambda found: found.has("-l", "-Z")),
    "echo": Program(opens=False, whatever=True),
    "printf": Program(opens=False, check=_is_format),
}
SYSTEM_PROGRAMS: dict[str, Program] = {
    "ls": Program(
        "-alAhrtSRdFiskgGonpqQUXBLHbCcmuvx1NZf --all --almost-all --human-readable --reverse --recursive --directory"
        " --classify --inode --size --no-group --numeric-uid-gid --full-time --group-directories-first --dereference"
        f" --author --escape --literal --si --zero --file-type --ignore-backups --context {_HELP}",
        "-IwT --ignore --hide --sort --time --time-style --format --block-size --indicator-style --quoting-style"
        " --width --tabsize",
        "--color --hyperlink",
        opens=False,
        whatever=True,
    ),
    "fd": Program(
        "-HIuiasgFpLq01 --hidden --no-ignore --unrestricted --ignore-case --case-sensitive --glob --fixed-strings"
        f" --absolute-path --full-path --follow --print0 --quiet {_HELP}",
        "-etdEc --extension --type --max-depth --min-depth --exact-depth --exclude --size --changed-within"
        " --changed-before --color --max-results",
        opens=False,
    ),
    "stat": Program(
        f"-Lft --dereference --file-system --terse {_HELP}",
        "-c --format --printf",
        opens=False,
        whatever=True,
    ),
    "file": Program(
        "-biLkNrsh0E --brief --mime --mime-type --mime-encoding --dereference --keep-going --no-pad --raw"
        f" --no-dereference --extension {_HELP}",
        "-F --separator",
        opens=False,
    ),
    "du": Program(
        "-shackmbxlLPDS0H --summarize --human-readable --all --total --bytes --one-file-system --apparent-size"
        f" --count-links --dereference --separate-dirs --null --inodes --si {_HELP}",
        "-dtB --max-depth --exclude --threshold --block-size",
        "--time",
        opens=False,
        whatever=True,
    ),
    "df": Program(
        "-hTkmialPH --human-readable --print-type --inodes --all --local --portability --total --si "
        + _HELP,
        "-txB --type --exclude-type --block-size",
        "--output",
        opens=False,
    ),
    "tree": Program(
        f"-adfihsDFCnJXupgtrvcNQqlx --noreport --dirsfirst --gitignore --prune --du --si --inodes {_HELP}",
        "-LIP --filelimit --sort --timefmt --charset",
        opens=False,
    ),
    "pwd": Program("-LP", opens=False, most=0),
    "basename": Program(
        f"-az --multiple --zero {_HELP}", "-s --suffix", opens=False, whatever=True
    ),
    "dirname": Program(f"-z --zero {_HELP}", opens=False, whatever=True),
    "realpath": Program(
        "-eLmPqsz --canonicalize-existing --canonicalize-missing --no-symlinks --quiet --strip --zero "
        + _HELP,
        "--relative-to --relative-base",
        opens=False,
        whatever=True,
    ),
    "readlink": Program(
        "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent"
        f" --verbose --zero {_HELP}",
        opens=False,
        whatever=True,
    ),
    "date": Program(
        f"-uR --utc --universal --rfc-email {_HELP}",
        "-dr --date --reference --rfc-3339",
        "-I --iso-8601",
        opens=False,
        check=_operands(r"\+.*"),
    ),
    "id": Program(f"-ugGnrz --user --group --groups --name --real --zero {_HELP}", opens=False),
    "groups": _NO_FLAGS,
    "whoami": Program(_HELP, opens=False, most=0),
    "hostname": _NOTHING,
    "arch": _NOTHING,
    "nproc": Program(f"--all {_HELP}", "--ignore", opens=False, most=0),
    "uptime": Program("-ps --pretty --since", opens=False, most=0),
    "free": Program("-hbkmgtwl --human --total --wide --mega --giga", opens=False, most=0),
    "uname": Program(
        "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --operating-system "
        + _HELP,
        opens=False,
        most=0,
    ),
    "env": _NOTHING,
    "printenv": Program("-0 --null", opens=False),
    "locale": Program("-am", opens=False),
    "getconf": Program("-a", opens=False, most=1),
    "umask": Program("-S", opens=False, most=0),
    "ulimit": Program("-a", opens=False, most=0),
    "which": Program("-as", opens=False),
    "type": Program("-afptP", opens=False),
    "ps": Program(
        "-eAfaxlwFHLTjNdyM --forest --no-headers",
        "-opCuUtg --sort --pid --ppid --format --user",
        opens=False,
        check=_operands(r"[auxwfrjlvmh]+"),
    ),
    "pgrep": Program(
        "-lafinovxc --list-name --list-full --full --exact --newest --oldest --ignore-case",
        "-uPdgst",
        opens=False,
    ),
    "sleep": Program(opens=False, check=_operands(r"\d{1,2}(?:\.\d+)?s?")),
    "seq": Program(
        "-w --equal-width", "-s --separator", opens=False, check=_operands(r"\d{1,5}", least=1)
    ),
    "expr": _NO_FLAGS,
    "lscpu": Program("-aebcpxy --all --extended --parse", opens=False, most=0),
    "lsblk": Program("-afmprSdnil --fs --all --list --noheadings", "-o --output", opens=False),
    "whereis": Program("-bms", opens=False),
    "getent": Program(opens=False, check=_in_local_files),
    "factor": Program(opens=False),
    "numfmt": Program("--grouping", "--to --from --suffix --format --field --padding", opens=False),
    "tput": Program(opens=False, check=_operands("cols|lines|colors")),
    "cal": Program("-13jmyw", opens=False),
    "true": _NO_FLAGS,
    "false": _NO_FLAGS,
    ":": _NO_FLAGS,
    "exit": Program(opens=False, most=1),
    "cd": Program("-LPe", most=1),
}
