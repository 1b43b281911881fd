"""Facts about programs: which run others, reach other machines or destroy files."""

from codeagent.core.lazy_regex import lazy_regex


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, which is how a table of names is written."""
    return frozenset(text.split())


SHELLS = word_set("sh bash dash zsh ksh mksh ash fish csh tcsh rbash pwsh")
_OWN_WORDS: dict[int, str] = {
    0: "sudo doas env nice ionice nohup time command builtin exec setsid stdbuf unbuffer strace ltrace busybox toybox"
    " unshare nsenter xargs watch parallel coproc script chronic fakeroot eatmydata setarch linux32 linux64 pkexec"
    " systemd-run systemd-inhibit dbus-run-session xvfb-run firejail bwrap valgrind perf rlwrap torsocks proxychains"
    " proxychains4 numactl prlimit setpriv choom cpulimit entr hyperfine ifne sem tsocks catchsegv winpty caffeinate"
    " uftrace heaptrack noglob nocorrect",
    1: "timeout chroot flock taskset chrt ssh su su-exec runuser faketime logsave runcon retry gosu",
}
RUNNERS: dict[str, int] = {
    name: size for size, names in _OWN_WORDS.items() for name in names.split()
}
"""Programs that run the words after their own, and how many of their own are not flags or values of
flags."""
RUN_BEHIND = {
    "find": word_set("-exec -execdir -ok -okdir"),
    "fd": word_set("-x -X --exec --exec-batch"),
    "fdfind": word_set("-x -X --exec --exec-batch"),
}
"""Programs that run what follows one of the given words."""
EVALUATE = word_set("""
    eval source . trap alias let watch ssh su script parallel at batch tmux screen expect complete
    compgen bind read mapfile readarray getopts declare typeset local readonly export unset enable
    hash fc wait crontab setpriv runuser flock
""")
"""Programs and builtins that use an argument as code, or as a name that is evaluated."""
WRAPPERS = frozenset(RUNNERS) - EVALUATE - word_set("su-exec faketime logsave runcon retry gosu")
"""Runners whose own words are flags, assignments and numbers, so that the program after them is
obvious."""
LANGUAGES = word_set("""
    node deno bun perl ruby php lua luajit tclsh wish octave m4 Rscript julia osascript
""")
"""Interpreters, besides Python and the shells."""
PYTHON = lazy_regex(r"python[\d.]*|pypy[\d.]*|ipython")
_VERSIONED = lazy_regex(r"(?:perl|ruby|php|lua|node)[\d.]+")
_EDITORS = word_set("ed ex vi vim")
RUN_THEIR_INPUT: dict[str, int] = {
    **dict.fromkeys(LANGUAGES, 1),
    **dict.fromkeys(("ssh", "su", "sqlite3", "psql", "mysql"), 2),
    **dict.fromkeys(word_set("at batch parallel crontab expect script gdb lldb gnuplot dc R"), 99),
    **dict.fromkeys(_EDITORS | word_set("gnuplot dc R tmux screen telnet ftp sftp"), 99),
}
"""Programs that run their input, unless they get this many words that are not flags."""
GOES_OUT = word_set("""
    curl wget nc ncat netcat socat telnet ftp sftp scp rsync http httpie aria2c dig nslookup host
    ping gh aws gcloud az kubectl
""")
"""Programs that connect to other machines."""
DESTROYS = word_set("rm dd mkfs shred truncate chmod chown kill pkill killall")
_RUNS_ANYTHING = (
    SHELLS
    | LANGUAGES
    | _EDITORS
    | frozenset(RUNNERS)
    | frozenset(RUN_BEHIND)
    | word_set("awk gawk mawk nawk eval source . trap gdb expect nvim emacs")
    | {"docker", "podman"}
)
_NOT_PROPOSED = word_set("""
    irb R java jshell ghci scala sed lldb sqlite3 psql mysql rmdir nmap glab helm ansible vagrant
    pip pip3 apt apt-get brew tar unzip zip tee install crontab at systemctl mount
""")
"""Programs whose effect depends on their arguments, so that rules with a star are never proposed
for them."""


def runs_anything(name: str) -> bool:
    """Whether the program runs what it gets as arguments."""
    return name in _RUNS_ANYTHING or any(known.fullmatch(name) for known in (PYTHON, _VERSIONED))


def is_never_proposed(name: str) -> bool:
    """Whether a rule that allows the program with any further words must not be proposed."""
    return runs_anything(name) or name in GOES_OUT | DESTROYS | _NOT_PROPOSED
