"""Programs that show what is in files, and the flags with which they only read.

A flag is here because its description says that it changes what is printed, and nothing else. Left out on purpose are
flags that write (`sort -o`, the second operand of `uniq` and `xxd`), that run something (`rg --pre`, `rg -z`,
`diff -l`), that take file names out of a file (`--files0-from`), that wait for more (`tail -f`), and those that nobody
misses. yq is not here: two programs have that name, and neither's flags are the other's.
"""

import re

from codeagent.tools.reading.flags import Arguments, Program, program

_HELP = "--help --version"
_FORMAT = re.compile(r"(?:[^%\\]|%%|%[-+ #0]*\d{0,3}(?:\.\d{0,3})?[sdiuoxXeEfgGcbq]|\\[nrte\\\"'abfv])*")


def _is_format(arguments: Arguments) -> bool:
    """bash's own `printf` assigns with `%n`, and with the flag `-v`."""
    first = arguments.operands[:1]
    return bool(first) and not first[0].globs and _FORMAT.fullmatch(first[0].text) is not None


def _has_no_old_form(arguments: Arguments) -> bool:
    """`tail +5f` is no file."""
    return not any(word.text.startswith("+") for word in arguments.operands)


def _imports_nothing(arguments: Arguments) -> bool:
    """A jq program can read other files as modules."""
    return all(re.search(r"\b(?:import|include)\b", word.text) is None for word in arguments.operands[:1])


def _lists(arguments: Arguments) -> bool:
    return arguments.has("-l", "-Z")


_SUM = program(
    f"-bctwz --binary --text --tag --zero --quiet --status --strict --warn --ignore-missing --check {_HELP}",
    whatever=True,
)
_GREP = program(
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
_RIPGREP = program(
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

TEXTS: dict[str, Program] = {
    "cat": program(
        "-nAbseEtTvu --number --show-all --number-nonblank --squeeze-blank --show-ends --show-tabs"
        f" --show-nonprinting {_HELP}",
        whatever=True,
    ),
    "head": program(_ENDS_OF_FILES, "-nc --lines --bytes", whatever=True),
    "tail": program(_ENDS_OF_FILES, "-nc --lines --bytes", check=_has_no_old_form),
    "wc": program(
        f"-lwcmL --lines --words --bytes --chars --max-line-length {_HELP}", "--total", opens=False, whatever=True
    ),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RIPGREP,
    "sort": program(
        "-nrufhVbscCgMRzdim --numeric-sort --reverse --unique --ignore-case --human-numeric-sort --version-sort"
        " --stable --check --merge --ignore-leading-blanks --general-numeric-sort --month-sort --zero-terminated"
        f" --dictionary-order --debug {_HELP}",
        "-kt --key --field-separator --sort",
    ),
    "uniq": program(
        f"-cduizD --count --repeated --unique --ignore-case --zero-terminated {_HELP}",
        "-fsw --skip-fields --skip-chars --check-chars",
        "--all-repeated --group",
        most=1,
    ),
    "cut": program(
        f"-snz --complement --only-delimited --zero-terminated {_HELP}",
        "-dfcb --delimiter --fields --characters --bytes --output-delimiter",
        whatever=True,
    ),
    "tr": program(f"-dscCt --delete --squeeze-repeats --complement --truncate-set1 {_HELP}", opens=False),
    "diff": program(
        "-urqNwbBiaspydtTE --recursive --brief --new-file --ignore-all-space --ignore-space-change --ignore-blank-lines"
        " --ignore-case --text --report-identical-files --show-c-function --side-by-side --suppress-common-lines"
        " --strip-trailing-cr --minimal --expand-tabs --no-dereference --ignore-tab-expansion --ignore-trailing-space"
        f" --left-column {_HELP}",
        "-UCxIWL --exclude --ignore-matching-lines --width --label",
        "-c --unified --context --color",
    ),
    "cmp": program(
        f"-lsb --verbose --silent --quiet --print-bytes {_HELP}", "-ni --bytes --ignore-initial", whatever=True
    ),
    "comm": program(
        f"-123iz --check-order --nocheck-order --total --zero-terminated {_HELP}", "--output-delimiter", whatever=True
    ),
    "paste": program(f"-sz --serial --zero-terminated {_HELP}", "-d --delimiters", whatever=True),
    "join": program(f"-iz --ignore-case --header --check-order --nocheck-order {_HELP}", "-12jtaveo", whatever=True),
    "fold": program(f"-bs --bytes --spaces {_HELP}", "-w --width", whatever=True),
    "expand": program(f"-i --initial {_HELP}", "-t --tabs", whatever=True),
    "column": program(f"-txe --table {_HELP}", "-soc --separator --output-separator --output-width --table-columns"),
    "nl": program(
        f"-p --no-renumber {_HELP}",
        "-bhfinsvwld --body-numbering --number-width --number-format --number-separator --starting-line-number",
        whatever=True,
    ),
    "tac": program(f"-br --before --regex {_HELP}", "-s --separator", whatever=True),
    "rev": program(_HELP, whatever=True),
    "od": program(
        f"-abcdfilosxv --output-duplicates {_HELP}",
        "-AtjN --address-radix --format --skip-bytes --read-bytes",
        "-w --width",
        whatever=True,
    ),
    "xxd": program("-puibe", "-lcgs", most=1, clusters=False),
    "hexdump": program("-Cbcdoxv --canonical --no-squeezing", "-nse --length --skip --format"),
    "strings": program("-aw --all", "-nte --bytes --radix --encoding"),
    "base64": program(f"-diD --decode --ignore-garbage {_HELP}", "-w --wrap", most=1),
    "cksum": _SUM,
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha224sum": _SUM,
    "sha256sum": _SUM,
    "sha384sum": _SUM,
    "sha512sum": _SUM,
    "b2sum": _SUM,
    "jq": program(
        "-rcensMCSjaRh --raw-output --compact-output --exit-status --null-input --slurp --monochrome-output"
        f" --color-output --sort-keys --join-output --ascii-output --raw-input --tab --unbuffered {_HELP}",
        "--indent",
        patterns=1,
        whatever=True,
        check=_imports_nothing,
    ),
    "shuf": program("-ez --echo --zero-terminated", "-ni --head-count --input-range"),
    "iconv": program("-cl --list", "-ft --from-code --to-code"),
    "zcat": program("-f"),
    "zipinfo": program("-1lmtz", opens=False),
    "unzip": program("-lvZ1qt", opens=False, check=_lists),
    "echo": program(opens=False, whatever=True),
    "printf": program(opens=False, check=_is_format),
}
