"""What makes git run commands: its options, its configuration keys, and subcommands that are not
its own.

A key that is not known to be harmless may name a command; a subcommand that is not known may be an
alias, or a program `git-NAME`. Section and variable of a key are the same in capitals.
"""

import re
from collections.abc import Sequence

from codeagent.core.patterns import HOLE
from codeagent.tools.shell.carrier_table import is_hidden, names_flag
from codeagent.tools.shell.known_git import GIT_COMMANDS
from codeagent.tools.shell.programs import word_set

_PLAIN_KEY = re.compile(
    r"user\.(?:name|email|useconfigonly)|(?:color|advice|column|status|versionsort|branch|fetch|index|pack|blame"
    r"|checkout|clean|feature|gc|grep|i18n|log|notes|pull|rebase|receive|rerere|safe|stash|push|transfer)\..*"
    r"|core\.(?:quotepath|autocrlf|eol|safecrlf|abbrev|filemode|ignorecase|longpaths|symlinks|compression|bare"
    r"|logallrefupdates|whitespace|commentchar|precomposeunicode|untrackedcache|preloadindex|sparsecheckout\w*|fscache"
    r"|splitindex|checkstat|trustctime|bigfilethreshold|excludesfile|commitgraph|multipackindex|repositoryformatversion"
    r"|protecthfs|protectntfs|worktree)"
    r"|diff\.(?:renames?|renamelimit|algorithm|context|interhunkcontext|noprefix|mnemonicprefix|colormoved\w*"
    r"|submodule|statgraphwidth|wserrorhighlight|orderfile|indentheuristic|ignoresubmodules)"
    r"|merge\.(?:conflictstyle|ff|renames|renamelimit|log|stat|autostash|directoryrenames)"
    r"|(?:commit|tag|format)\.(?:gpgsign|verbose|cleanup|status|sort|forcesignannotated|pretty|template)"
    r"|init\.defaultbranch|http\.(?:.*\.)?(?:sslverify|postbuffer|version|lowspeed\w*|maxrequests|useragent)"
    r"|protocol\.version|lfs\.fetch(?:in|ex)clude|submodule\.(?:recurse|fetchjobs|propagatebranches)"
    r"|remote\.[^.]+\.(?:fetch|push|tagopt|prune|mirror|pushurl|url)|url\..*\.(?:pushinsteadof|insteadof)"
)
"""Keys, in small letters, whose values never name a command or a file of configuration."""
_EXCEPT = re.compile(
    r".*(?:hook|command|program|helper|exec|mergeoptions|twohead|octopus|::).*", re.DOTALL
)
"""Keys that do name one, although the section is harmless."""
_PLAIN_VALUES: dict[str, frozenset[str]] = {
    "core.pager": frozenset({"cat", "less", ""}),
    "core.editor": frozenset({"true", ":", ""}),
    "sequence.editor": frozenset({"true", ":", ""}),
    "core.hookspath": frozenset({"/dev/null", ""}),
    "core.fsmonitor": frozenset({"false", "true", "0", ""}),
    "core.askpass": frozenset({"", "true"}),
    "credential.helper": frozenset({""}),
    "diff.external": frozenset({""}),
}
_PAGERS = re.compile(r"pager\.[\w-]+")
_REMOTE_HELPER = re.compile(r"[\w+.-]+::.*", re.DOTALL)
_WITH_VALUE = word_set("""
    -C --git-dir --work-tree --namespace --super-prefix --attr-source
""")
_STRATEGIES = word_set("ort recursive resolve octopus ours subtree")
_TRANSFER = ("--upload-pack", "--exec")
_FLAGS: dict[str, tuple[str, ...]] = {
    "clone": ("-u", "--upload-pack", "--template"),
    "init": ("--template",),
    "init-db": ("--template",),
    "fetch": _TRANSFER,
    "pull": _TRANSFER,
    "ls-remote": _TRANSFER,
    "fetch-pack": _TRANSFER,
    "archive": ("--exec", "--remote"),
    "push": ("--receive-pack", "--exec"),
    "send-pack": ("--receive-pack", "--exec"),
    "rebase": ("-x", "--exec"),
    "grep": ("-O", "--open-files-in-pager"),
}
"""Flags of subcommands that name a command, or a folder of hooks."""
_REMOTE = word_set("""
    clone fetch pull ls-remote fetch-pack archive push send-pack remote
""")
_FIRST: dict[str, frozenset[str]] = {
    "bisect": word_set("run visualize view replay"),
    "submodule": frozenset({"foreach"}),
}
"""What follows a subcommand and runs a command."""
_OTHER_COMMANDS = word_set("""
add am annotate apply bundle check-mailmap check-ref-format checkout checkout-index cherry-pick
clean column commit commit-graph commit-tree fast-export fmt-merge-msg format-patch fsck gc
hash-object index-pack interpret-trailers mailinfo mailsplit merge merge-file merge-tree mktag
mktree multi-pack-index mv notes pack-objects pack-redundant pack-refs patch-id prune
prune-packed read-tree remote repack replace rerere reset restore revert rm show-branch
show-index sparse-checkout stage stripspace switch unpack-file unpack-objects update-index
update-ref update-server-info var verify-commit verify-pack verify-tag write-tree backfill refs
repo
""")
_KNOWN = frozenset((*GIT_COMMANDS, *_FLAGS, *_FIRST, *_OTHER_COMMANDS))
"""Subcommands that are part of git, which no alias can replace, and that run nothing but what is
configured."""
_CONFIG_READS = word_set("""
--get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool -l --list get list
--unset --unset-all unset --remove-section remove-section
""")
_CONFIG_VALUED = word_set("-f --file --blob --type --default --comment --value --url -t")


def git_carries(words: Sequence[str]) -> str | None:
    """Return the word with which a git command runs something that cannot be read; None if it has
    none."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word.startswith("-c"):
            setting = word[2:] or "".join(words[at + 1 : at + 2])
            if not _is_plain(*_pair(setting)):
                return f"-c {setting.partition('=')[0]}"
            at += 1 if word[2:] else 2
        elif word.startswith(("--config-env", "--exec-path=")) or _is_other_repository(words, at):
            return word.partition("=")[0]
        else:
            at += 2 if word in _WITH_VALUE else 1
    if at >= len(words):
        return None
    return _subcommand(words[at], words[at + 1 :])


def _is_other_repository(words: Sequence[str], at: int) -> bool:
    """Whether the word there names a repository that is not the one here, with a configuration of
    its own."""
    value, following = words[at].partition("=")[2], words[at + 1 : at + 2]
    return words[at].startswith("--git-dir") and value != ".git" and list(following) != [".git"]


def _subcommand(name: str, rest: Sequence[str]) -> str | None:
    if name not in _KNOWN:
        return "with a subcommand that is not known" if HOLE in name else name
    if name == "config":
        return _config(rest)
    named = _FLAGS.get(name, ())
    for at, word in enumerate(rest):
        following = "".join(rest[at + 1 : at + 2])
        if name in _REMOTE and _REMOTE_HELPER.fullmatch(word):
            return name
        if word == "--" or "--" in rest[:at]:
            continue
        if is_hidden(word) or names_flag(word, named):
            return f"{name} {word.partition('=')[0] if word.startswith('-') else ''}"
        if word == HOLE and named:
            return f"{name} with a word that is not known"
        if (
            name == "clone"
            and (key := _clone_setting(word, following)) is not None
            and not _is_plain(*_pair(key))
        ):
            return f"clone -c {key.partition('=')[0]}"
        if name in ("merge", "pull", "rebase", "cherry-pick", "revert") and not _is_strategy(
            word, following
        ):
            return f"{name} --strategy"
    operands = [word for word in rest if not word.startswith("-")]
    runs = _FIRST.get(name, frozenset())
    return f"{name} {operands[0]}" if runs and operands and operands[0] in runs | {HOLE} else None


def _clone_setting(word: str, following: str) -> str | None:
    if word.startswith("--"):
        name, given, value = word.partition("=")
        return (
            (value if given else following)
            if len(name) > 3 and "--config".startswith(name)
            else None
        )
    cluster = re.fullmatch(r"-[a-zA-Z]*?c(.*)", word, re.DOTALL)
    return None if cluster is None else cluster[1] or following


def _is_strategy(word: str, following: str) -> bool:
    """Whether the word does not choose a merge strategy, or one of git's own: another is a program
    `git-merge-NAME`."""
    if word.startswith("--strategy-option"):
        return True
    if word.startswith("--strat"):
        return (word.partition("=")[2] or following) in _STRATEGIES
    return word != "-s" or following in _STRATEGIES or not following or following.startswith("-")


def _config(rest: Sequence[str]) -> str | None:
    if any(word in ("-e", "--edit", "edit", "--rename-section", "rename-section") for word in rest):
        return "config --edit" if "edit" in " ".join(rest) else "config --rename-section"
    if any(word in _CONFIG_READS for word in rest):
        return None
    operands: list[str] = []
    skip = False
    for word in rest:
        if skip:
            skip = False
        elif operands and operands != ["set"]:
            operands.append(word)
        elif word.startswith("-"):
            skip = word in _CONFIG_VALUED
        else:
            operands.append(word)
    operands = operands[1:] if operands[:1] == ["set"] else operands
    if not operands or (len(operands) == 1 and HOLE not in operands[0]):
        return None
    key, value = operands[0], operands[1] if len(operands) > 1 else HOLE
    return None if _is_plain(key, value) else f"config {key}"


def _pair(setting: str) -> tuple[str, str]:
    key, _, value = setting.partition("=")
    return key, value


def _is_plain(key: str, value: str) -> bool:
    """Whether a key of git's configuration with this value makes git run nothing."""
    folded = key.lower()
    if folded in _PLAIN_VALUES:
        return value in _PLAIN_VALUES[folded]
    if HOLE in key or _EXCEPT.fullmatch(folded):
        return False
    if _PAGERS.fullmatch(folded):
        return value in ("false", "true", "cat", "")
    if _REMOTE_HELPER.fullmatch(value) or (HOLE in value and ".url" in folded):
        return False
    return _PLAIN_KEY.fullmatch(folded) is not None
