"""Programs that can be made to run other commands, with the words that make them, by the programs'
names."""

import re
from collections.abc import Sequence

from codeagent.core.dataclass import dataclass
from codeagent.core.patterns import HOLE


@dataclass(frozen=True)
class Carrier:
    """What makes a program run commands, or read a configuration that may name some."""

    flags: str = ""
    """Flags: `-If` are two of one letter, also in a cluster; a long one may be abbreviated."""
    dashed: str = ""
    """Flags that are long with one dash or two, and have a value in the same word or in the
    next."""
    words: str = ""
    """A pattern of other words that do."""
    first: str = ""
    """A pattern of its first two operands, joined by a blank, that do."""
    always: bool = False
    """Whether it does so whatever its words are."""
    leading: bool = False
    """Whether its own words end before its first operand, a script or a program with words of its
    own."""


def names_flag(word: str, flags: Sequence[str], dashed: Sequence[str] = ()) -> bool:
    """Whether the word is one of the flags, see `Carrier`: in a cluster, abbreviated, or with its
    value in the same word."""
    name = word.partition("=")[0].partition(HOLE)[0]
    if name.lstrip("-").startswith(tuple(dashed)):
        return True
    if word.startswith("--"):
        return len(name) > 2 and any(flag.startswith(name) for flag in flags)
    letters = {letter for flag in flags if not flag.startswith("--") for letter in flag[1:]}
    cluster = _CLUSTER.match(word)
    return cluster is not None and not letters.isdisjoint(cluster[0][1:])


def is_hidden(word: str) -> bool:
    """Whether the word may be any flag."""
    return word.startswith("-") and word.lstrip("-").startswith(HOLE)


_CLUSTER = re.compile(r"-[A-Za-z0-9]+")
_ALWAYS = Carrier(always=True)
_TABLE: tuple[tuple[str, Carrier], ...] = (
    (
        "gdb lldb cgdb rr emacs emacsclient vi vim nvim view vimdiff ex ed red expect gnuplot dc m4 irb jshell ghci iex"
        " tmux screen start-stop-daemon daemonize logrotate lftp mutt mailx mail sendmail exim fzf run-parts git-shell"
        " scalar at batch",
        _ALWAYS,
    ),
    ("flock su runuser script", Carrier("-c --command")),
    ("crontab", Carrier(words="(?!-l$).*")),
    ("cpio", Carrier("--rsh-command --rmt-command", words=".*:.*")),
    ("zip", Carrier("--unzip-command", words="-[a-zA-Z]*TT.*")),
    ("sort", Carrier("--compress-program")),
    ("split", Carrier("--filter")),
    ("rg", Carrier("--pre --hostname-bin")),
    ("ag ack", Carrier("--pager --ackrc")),
    ("bat batcat delta", Carrier("--pager --diff-program --config-file")),
    ("less more most", Carrier("-k --lesskey-file --lesskey-src --lesskey-content", words=r"\+.*")),
    ("man", Carrier("-PHpCT --pager --html --preprocessor --config-file --troff-device")),
    (
        "ssh scp sftp slogin autossh",
        Carrier(
            "-FSI",
            words=(
                r"(?i)(?:-[a-z0-9]*o)?\s*(?:\x00|proxy|local|permitlocal|knownhostscommand|match|include|pkcs11|security"
                r"|xauth|control|remotecommand|hostkeyalias|canonical).*"
            ),
        ),
    ),
    (
        "sftp",
        Carrier(
            "-FSIDb",
            words=r"(?i)(?:-[a-z0-9]*o)?\s*(?:\x00|proxy|local|permitlocal|knownhosts|match).*",
        ),
    ),
    ("ssh-keygen ssh-add", Carrier("-D")),
    ("rsync", Carrier("-e --rsh --rsync-path --config --daemon")),
    ("curl", Carrier("-K --config")),
    ("wget wget2", Carrier("-e --execute --use-askpass --config")),
    ("openssl", Carrier(dashed="engine provider provider-path config", first=r"engine\b.*")),
    ("nc ncat netcat", Carrier("-ec --exec --sh-exec --lua-exec")),
    ("socat", Carrier(words=r"(?i).*(?:exec|system|shell):.*|\x00.*")),
    ("nmap", Carrier("--script --interactive --datadir --script-args")),
    ("tcpdump", Carrier("-z")),
    ("tshark", Carrier("-X")),
    (
        "gpg gpg2",
        Carrier("--photo-viewer --exec-path --options --agent-program --dirmngr-program --homedir"),
    ),
    (
        "latex pdflatex xelatex lualatex tex luatex pdftex",
        Carrier(dashed="shell-escape enable-write18 fmt cnf-line"),
    ),
    ("pandoc", Carrier("-FLd --filter --lua-filter --pdf-engine --defaults --data-dir")),
    (
        "gcc g++ cc c++ clang clang++ gfortran",
        Carrier(
            dashed="B wrapper fplugin specs fuse-ld fpass-plugin load plugin config",
            words=r"@.*|.*\bld-path=.*",
        ),
    ),
    ("rustc", Carrier(words=r".*\blinker=.*|@.*")),
    (
        "go",
        Carrier(
            dashed="toolexec exec vettool overlay extld modfile",
            words=r".*\bextld\b.*",
            first=r"env .*=.*|tool .*",
        ),
    ),
    ("cargo", Carrier("--config", words=r".*\blinker=.*")),
    (
        "cmake",
        Carrier(
            "--toolchain",
            dashed="C",
            words=(r"env|chdir|time|-P|-D.*(?:LAUNCHER|COMPILER|PROGRAM|COMMAND|LINKER|TOOL).*"),
        ),
    ),
    (
        "ctest",
        Carrier(
            "-SD --build-and-test --script --dashboard --build-command --test-command --test-launcher"
        ),
    ),
    ("meson", Carrier("--native-file --cross-file", first=r"devenv.*")),
    ("ninja", Carrier("-f")),
    (
        "bazel blaze",
        Carrier("--run_under --bazelrc --workspace_status_command --override_repository"),
    ),
    ("gradle gradlew", Carrier("--init-script --build-file --settings-file", dashed="I b")),
    ("mvn mvnw", Carrier("--settings --global-settings", dashed="s gs", words=r".*exec.*")),
    ("ant", Carrier(dashed="f buildfile file main listener")),
    ("rake", Carrier("-feEp --rakefile --execute --execute-print --execute-continue")),
    ("just", Carrier("-fc --justfile --command --shell --shell-arg --set --chooser")),
    ("task", Carrier("-t --taskfile")),
    ("tox", Carrier("-cx --conf --override")),
    ("nox", Carrier("-f --noxfile")),
    (
        "npm",
        Carrier(
            "-c --call --script-shell --node-options --userconfig --globalconfig --editor --viewer --browser --git"
            " --shell --init-module",
            first=(
                r"(?:config|c) (?:set|edit)|set\b.*|pkg (?:set|fix)|(?:init|create|innit) .+"
                r"|(?:explore|edit|set-script).*"
            ),
        ),
    ),
    (
        "npx",
        Carrier(
            "-c --call --script-shell --node-options --userconfig --globalconfig --shell",
            leading=True,
        ),
    ),
    (
        "pnpm yarn yarnpkg bun corepack",
        Carrier(
            "-cep --call --eval --print --shell-mode --script-shell",
            leading=True,
            first=r"config set|set\b.*|(?:init|create|plugin|import) .+",
        ),
    ),
    ("deno", Carrier(first=r"(?:eval|repl)\b.*")),
    (
        "pip pip3 uv pipx pdm hatch",
        Carrier(
            "--config-settings --config-setting --global-option --build-option --install-option --editor",
            first=r"config (?:set|edit)",
        ),
    ),
    ("poetry", Carrier(first=r"config .*|self (?:add|install)")),
    ("docker podman", Carrier("--config", leading=True, first=r"plugin .*")),
    ("kubectl helm", Carrier("--kubeconfig --post-renderer", first=r"edit\b.*|plugin .*")),
    ("aws gcloud az", Carrier(first=r"configure.*|alias.*")),
    ("gh glab", Carrier(first=r"alias set|(?:extension|ext) (?:install|exec)|config set")),
    ("hg", Carrier("--config", first=r"(?:serve|extdiff).*")),
    ("svn", Carrier("--diff-cmd --diff3-cmd --editor-cmd --config-option --config-dir")),
    ("apt apt-get aptitude", Carrier("-oc --option --config-file")),
    ("dpkg", Carrier("--pre-invoke --post-invoke --status-logger")),
    ("rpm rpmbuild", Carrier("-ED --eval --define --pipe --rcfile --load")),
    ("ansible ansible-playbook", Carrier("-aem --args --extra-vars --module-name")),
    ("ctags", Carrier("--options")),
    ("patch", Carrier("-e --ed")),
    ("xdg-open sensible-pager sensible-editor sensible-browser www-browser", _ALWAYS),
    ("ruby", Carrier(words=r"-[aclnpsSvw\d]*(?:e|i.*e$).*", leading=True)),
    (
        "php",
        Carrier(
            "-rBRE --run --process-begin --process-code --process-end",
            leading=True,
            words=r"(?:-d)?(?:auto_|zend_|extension|sendmail|mail|ffi|allow_url|opcache).*",
        ),
    ),
    ("lua luajit", Carrier("-el", leading=True)),
    ("tclsh wish", Carrier(words="-.*", leading=True)),
    ("Rscript R", Carrier("-e", leading=True)),
    ("julia", Carrier("-eEL --eval --print --load", leading=True)),
    ("octave", Carrier("--eval", leading=True)),
    (
        "osascript groovy scala swift elixir guile racket sbcl clojure erl raku tsx ts-node coffee janet nim pwsh",
        Carrier(
            "-ecEp --eval --execute --print --rpc-eval --command",
            dashed="eval run s Command EncodedCommand",
            leading=True,
        ),
    ),
    (
        "nodemon concurrently onchange chokidar watchexec watchman",
        Carrier("-xc --exec --command", words=r".*\s.*"),
    ),
    ("nix nix-shell guix", Carrier("-cIE --run --command --expr --option")),
    (
        "sqlite3",
        Carrier(
            dashed="cmd init",
            words=(
                r"(?is)\.(?!(?:tables|schema|indexes|dump|databases|headers?|mode|show|help)\b).*"
                r"|.*(?:edit|load_extension|\n\s*\.).*"
            ),
        ),
    ),
    ("psql", Carrier("-f --file", words=r"(?is).*(?:\\|\bprogram\b).*")),
    (
        "mysql mariadb",
        Carrier(
            "--pager --defaults-file --defaults-extra-file --plugin-dir",
            words=r"(?is).*(?:\\|\b(?:system|source|pager|edit)\b).*",
        ),
    ),
    ("mapfile readarray", Carrier("-C")),
    ("compopt", Carrier("-FC")),
)
CARRIERS: dict[str, Carrier] = {
    name: carrier for names, carrier in _TABLE for name in names.split()
}
