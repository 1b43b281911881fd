"""The read-only subcommands of git, and the flags that keep them so.

Left out on purpose: `-c`, `--git-dir` and `--exec-path`, which choose what git runs; `--output`;
`--ext-diff` and `--textconv`; `grep -O`; `cat-file --filters`; `%G` in a format, which calls gpg.
What a repository's own configuration names (a filter, a diff driver) still runs: inside the
sandbox, and nothing there can write that file.
"""

import re
from collections.abc import Callable

from codeagent.core.lazy_regex import lazy_regex
from codeagent.tools.shell.programs import word_set
from codeagent.tools.shell.strict import ParsedFlags, Program

_SIGNED = lazy_regex(r"%G|signature|%\(sig", re.IGNORECASE)

_DIFF = (
    "-pusbwaRWzmc -# --patch --no-patch --raw --minimal --patience --histogram --compact-summary --numstat --shortstat"
    " --cumulative --summary --name-only --name-status --no-color --no-renames --check --full-index --binary"
    " --find-copies-harder --pickaxe-all --pickaxe-regex --text --ignore-cr-at-eol --ignore-space-at-eol"
    " --ignore-space-change --ignore-all-space --ignore-blank-lines --function-context --exit-code --quiet"
    " --no-ext-diff --no-textconv --no-prefix --cached --staged --merge-base --no-index --patch-with-stat --cc"
    " --indent-heuristic --no-indent-heuristic"
)
_DIFF_VALUED = (
    "-SGI --diff-algorithm --word-diff-regex --diff-filter --inter-hunk-context --src-prefix "
    "--dst-prefix --anchored"
)
_DIFF_OPTIONAL = (
    "-UMCB --unified --stat --dirstat --color --word-diff --color-words --abbrev --find-renames --find-copies"
    " --break-rewrites --relative --ignore-submodules --submodule --color-moved --stat-width"
)
_LOG = (
    " --oneline --graph --no-decorate --all --extended-regexp --fixed-strings --perl-regexp --regexp-ignore-case"
    " --all-match --invert-grep --merges --no-merges --first-parent --reverse --abbrev-commit --no-abbrev-commit"
    " --follow --topo-order --date-order --author-date-order --left-right --left-only --right-only --cherry-pick"
    " --cherry-mark --cherry --boundary --simplify-by-decoration --full-history --source --relative-date --parents"
    " --children --ancestry-path --walk-reflogs --not --show-pulls --dense --sparse --no-notes --use-mailmap"
    " --no-mailmap --full-diff --log-size --no-expand-tabs --clear-decorations --root -tgiEFPr"
)
_LOG_VALUED = (
    " -nL --max-count --skip --since --after --until --before --author --committer --grep --date --format"
    " --min-parents --max-parents --decorate-refs --decorate-refs-exclude --exclude --glob"
)
_LOG_OPTIONAL = " --decorate --branches --tags --remotes --pretty --no-walk --notes"
_LISTS = word_set("""
    --list -l -n --contains --no-contains --merged --no-merged --points-at
""")
_CHANGES = Program(_DIFF + " -rt --root --no-commit-id", _DIFF_VALUED, _DIFF_OPTIONAL)
_REFS = "--sort --format --points-at"


def _unsigned(arguments: ParsedFlags) -> bool:
    return not any(
        _SIGNED.search(value) for value in arguments.values("--format", "--pretty", "--sort")
    )


def _only_lists(arguments: ParsedFlags) -> bool:
    """Whether nothing is created: a name after `git branch` or `git tag` creates one, unless a flag
    asks for a list."""
    return _unsigned(arguments) and (not arguments.operands or arguments.has(*_LISTS))


def _first_is(*names: str) -> Callable[[ParsedFlags], bool]:
    def check(arguments: ParsedFlags) -> bool:
        return (
            _unsigned(arguments)
            and arguments.operands[:1] != ()
            and arguments.operands[0].text in names
        )

    return check


def _shows_remotes(arguments: ParsedFlags) -> bool:
    return not arguments.operands or (
        arguments.operands[0].text == "get-url" and not arguments.operands[0].globs
    )


def _shows_reflog(arguments: ParsedFlags) -> bool:
    first = arguments.operands[0].text if arguments.operands else "show"
    return _unsigned(arguments) and (first in ("show", "list", "HEAD", "--all") or "@{" in first)


def _gets(arguments: ParsedFlags) -> bool:
    """Whether a value is shown (`git config a.b`), not set (`git config a.b c`)."""
    asks = ("--get", "--get-all", "--get-regexp", "--list", "-l")
    return arguments.has(*asks) or (
        len(arguments.operands) == 1 and "." in arguments.operands[0].text
    )


_HISTORY = Program(
    _DIFF + _LOG, _DIFF_VALUED + _LOG_VALUED, _DIFF_OPTIONAL + _LOG_OPTIONAL, check=_unsigned
)

GIT_COMMANDS: dict[str, Program] = {
    "log": _HISTORY,
    "show": _HISTORY,
    "whatchanged": _HISTORY,
    "rev-list": Program(
        _DIFF + _LOG + " --count --objects --timestamp", _LOG_VALUED, _LOG_OPTIONAL, check=_unsigned
    ),
    "diff": _CHANGES,
    "diff-tree": _CHANGES,
    "diff-index": _CHANGES,
    "diff-files": _CHANGES,
    "range-diff": _CHANGES,
    "status": Program(
        "-sbvz --short --branch --long --verbose --no-column --ahead-behind --no-ahead-behind --renames --no-renames"
        " --show-stash",
        "",
        "-u --porcelain --untracked-files --ignored --ignore-submodules --column --find-renames",
        opens=False,
    ),
    "blame": Program(
        "-ltfnsewpb --porcelain --line-porcelain --incremental --root --color-lines --color-by-age --show-stats"
        " --show-name --show-number --show-email",
        "-L --date --since --ignore-rev",
        "-MC --abbrev",
    ),
    "branch": Program(
        "-arvi --all --remotes --verbose --show-current --list --merged --no-merged --contains --no-contains"
        " --no-color --no-column --ignore-case",
        _REFS,
        "--color --column --abbrev",
        opens=False,
        check=_only_lists,
    ),
    "tag": Program(
        "-li --list --merged --no-merged --contains --no-contains --no-column --ignore-case",
        _REFS,
        "-n --column --color",
        opens=False,
        check=_only_lists,
    ),
    "remote": Program("-v --verbose --push --all", opens=False, check=_shows_remotes),
    "reflog": Program(
        _DIFF + _LOG, _LOG_VALUED, _DIFF_OPTIONAL + _LOG_OPTIONAL, check=_shows_reflog
    ),
    "stash": Program(
        _DIFF + _LOG + " --include-untracked --only-untracked",
        _LOG_VALUED,
        _DIFF_OPTIONAL + _LOG_OPTIONAL,
        check=_first_is("list", "show"),
    ),
    "worktree": Program("-vz --porcelain --verbose", opens=False, check=_first_is("list")),
    "rev-parse": Program(
        "-q --quiet --verify --show-toplevel --git-dir --absolute-git-dir --git-common-dir --show-prefix --show-cdup"
        " --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --symbolic"
        " --symbolic-full-name --all --revs-only --no-revs --show-superproject-working-tree --show-object-format",
        "--git-path",
        "--abbrev-ref --short --branches --tags --remotes",
        opens=False,
    ),
    "ls-files": Program(
        "-cdmoisuktvz --cached --deleted --modified --others --ignored --stage --unmerged --killed --exclude-standard"
        " --directory --no-empty-directory --error-unmatch --full-name --eol --deduplicate --recurse-submodules",
        "-x --exclude --with-tree",
        "--abbrev",
        opens=False,
    ),
    "ls-tree": Program(
        "-drtlz --name-only --name-status --object-only --full-name --full-tree --long",
        "",
        "--abbrev",
        opens=False,
    ),
    "describe": Program(
        "--all --tags --contains --exact-match --long --always --first-parent --debug",
        "--candidates --match --exclude",
        "--abbrev --dirty --broken",
        opens=False,
    ),
    "shortlog": Program(
        "-nsec --numbered --summary --email --committer" + _LOG,
        "--group" + _LOG_VALUED.replace(" -nL ", " -L "),
        _LOG_OPTIONAL,
        check=_unsigned,
    ),
    "grep": Program(
        "-niwvlLcEFGPhHoqpWaIrz -# --cached --untracked --no-index --name-only --files-with-matches --count --column"
        " --files-without-match --line-number --ignore-case --word-regexp --heading --break --and --or --not"
        " --all-match --no-color --null --exclude-standard --recurse-submodules --fixed-strings --extended-regexp"
        " --perl-regexp --show-function --function-context --only-matching --full-name --invert-match --quiet",
        "-eABCm --max-depth --after-context --before-context --context --max-count --threads",
        "--color",
        patterns=1,
        pattern_flags="-e",
    ),
    "cat-file": Program("-tsep"),
    "config": Program(
        "-lz --get --get-all --get-regexp --list --global --local --system --worktree --show-origin --show-scope"
        " --name-only --null --bool --int --path --includes",
        "--type --default",
        opens=False,
        most=2,
        check=_gets,
    ),
    "show-ref": Program(
        "-dsq --head --heads --tags --branches --verify --quiet --dereference",
        "",
        "--hash --abbrev",
        opens=False,
    ),
    "for-each-ref": Program(
        "--merged --no-merged --contains --no-contains --ignore-case",
        f"--count --exclude {_REFS}",
        opens=False,
        check=_unsigned,
    ),
    "symbolic-ref": Program("-q --quiet --short", opens=False, most=1),
    "merge-base": Program(
        "-a --all --is-ancestor --octopus --independent", "", "--fork-point", opens=False
    ),
    "name-rev": Program("--name-only --tags --always --all", "--refs --exclude", opens=False),
    "cherry": Program("-v --verbose", "", "--abbrev", opens=False),
    "check-ignore": Program("-vqnz --verbose --quiet --non-matching --no-index", opens=False),
    "check-attr": Program("-az --all --cached", opens=False),
    "count-objects": Program("-vH --verbose --human-readable", opens=False),
    "version": Program("--build-options", opens=False, most=0),
}
