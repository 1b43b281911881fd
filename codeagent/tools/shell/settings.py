"""Variables of the environment that make programs run others, or choose the configuration that they
read.

A rule that denies a command asks about a line that sets one of them, unless the value is known to
be harmless.
"""

import re
from collections.abc import Iterator

from codeagent.core.patterns import HOLE

_FULL = re.compile(
    r"(?:LD|DYLD)_\w+|GIT_\w+|BASH_FUNC_.*|GCONV_PATH|BASH_ENV|ENV|PROMPT_COMMAND|PS[0-4]|SHELLOPTS|BASHOPTS|SHELL"
    r"|(?:HOME|XDG_(?:CONFIG|DATA)_(?:HOME|DIRS)|ZDOTDIR|CURL_HOME|CARGO_HOME|GNUPGHOME|DOCKER_CONFIG|KUBECONFIG|WGETRC)"
    r"|(?:PERL5(?:OPT|LIB|DB)|PERLLIB|PYTHON(?:STARTUP|PATH|HOME|BREAKPOINT|USERBASE|WARNINGS|INSPECT)|RUBY(?:OPT|LIB))"
    r"|(?:NODE_(?:OPTIONS|PATH)|LUA_(?:INIT|PATH|CPATH)\w*|PHPRC|PHP_INI_SCAN_DIR|R_PROFILE\w*|JULIA_LOAD_PATH)"
    r"|(?:\w*JAVA_(?:TOOL_)?OPTIONS|(?:MAVEN|GRADLE|ANT|SBT)_OPTS|CLASSPATH)"
    r"|(?:\w*PAGER|\w*EDITOR|VISUAL|\w*BROWSER|FCEDIT|LESS(?:OPEN|CLOSE|KEYIN|KEY\w*)?|MORE|MAN(?:OPT|ROFFOPT|PATH))"
    r"|(?:TAR_OPTIONS|(?:GNU)?MAKEFLAGS|MFLAGS|MAKEFILES|MAKE|RSYNC_(?:RSH|CONNECT_PROG)|(?:CVS|SVN)_(?:RSH|SSH))"
    r"|(?:S(?:SH|UDO)_ASKPASS|HGRCPATH|HGEDITOR|RIPGREP_CONFIG_PATH|FZF_DEFAULT_(?:COMMAND|OPTS)|VIMINIT|EXINIT|MYVIMRC)"
    r"|(?:OPENSSL_(?:CONF|MODULES|ENGINES)|PSQLRC|INPUTRC|SCREENRC|AWS_CONFIG_FILE|AWS_SHARED_CREDENTIALS_FILE)"
    r"|(?i:npm_config)_(?i:script_shell|node_options|userconfig|globalconfig|editor|viewer|browser|git|shell)"
    r"|(?:PIP_CONFIG_FILE|PIP_PYTHON|UV_PYTHON|YARN_\w*PATH|COREPACK_\w+|BUN_OPTIONS|DENO_\w+)"
    r"|(?:CARGO_(?:ALIAS_\w+|BUILD_RUST\w+|TARGET_\w+_(?:RUNNER|LINKER|RUSTFLAGS))|RUSTC\w*|RUST(?:DOC)?FLAGS)"
    r"|(?:GOFLAGS|GOCACHEPROG|GOAUTH|GOENV|GOTOOLDIR|GOROOT|PYTEST_(?:ADDOPTS|PLUGINS))"
    r"|(?:CC|CXX|CPP|LD|AR|AS|FC|LEX|YACC|RM|INSTALL|HOSTCC|COMPILER_PATH|GCC_EXEC_PREFIX|CMAKE_\w+_LAUNCHER|DOCKER_HOST"
    r"|ANSIBLE_\w+|SYSTEMD_\w+|TERMINAL|OPENER|W3M\w*|GS_OPTIONS|LESSCHARDEF|NULLCMD|READNULLCMD)"
)
"""Matches the name of such a variable."""
_WHERE_CODE_IS = re.compile(
    r"PYTHONPATH|PERL5LIB|PERLLIB|RUBYLIB|NODE_PATH|LUA_C?PATH\w*|JULIA_LOAD_PATH|CLASSPATH"
)
_HARMLESS = re.compile(
    r"GIT_(?:(?:AUTHOR|COMMITTER)_\w+|TERMINAL_PROMPT|OPTIONAL_LOCKS|TRACE\w*|INDEX_FILE|WORK_TREE|MERGE_AUTOEDIT"
    r"|LFS_SKIP_SMUDGE|DISCOVERY_ACROSS_FILESYSTEM|CEILING_DIRECTORIES|CONFIG_NOSYSTEM|PREFIX|(?:LITERAL|GLOB|NOGLOB"
    r"|ICASE)_PATHSPECS|ADVICE|FLUSH|DEPTH|REF|SHA\w*|COMMIT\w*|BRANCH|TAG|USER|REPO|URL|TOKEN|HASH|ROOT|EMAIL|NAME)=.*"
    r"|GIT_DIR=\.git/?"
    r"|(?:\w*PAGER|\w*EDITOR|VISUAL|\w*BROWSER)=(?:|cat|less|more|head|true|false|:|none|echo)"
    r"|LESS=-?[A-JL-Za-jl-np-z]*|MORE=-?[a-z]*|SHELL=(?:/(?:usr/)?bin/)?(?:ba|da|z)?sh"
    r"|PS\d=[^$`\\\x00]*"
    r"|NODE_OPTIONS=(?:--(?:max[-_]old[-_]space[-_]size=\d+|no-\w[\w-]*|trace-warnings|experimental-vm-modules"
    r"|enable-source-maps|openssl-legacy-provider)\s*)*"
    r"|\w*_OPT(?:ION)?S=(?:-X(?:m[sxn]|ss)\w+\s*|-Dfile\.encoding=[\w-]+\s*)*"
    r"|(?:GNU)?MAKEFLAGS=(?:-?[jksB]\d*|--jobs=?\d*|--no-print-directory|\s)*"
    r"|GOFLAGS=(?:-(?:mod|count|race|v|tags|buildvcs|trimpath|p|short)\b(?:=[\w,.-]*)?\s*)*"
    r"|RUST(?:DOC)?FLAGS=(?:(?:-[DWAF]|--deny|--warn|--allow|--cfg)\s*[\w=\"-]+\s*|-C\s*(?:opt-level|target-cpu|debuginfo"
    r"|panic|lto)=[\w-]+\s*|-C\s*instrument-coverage\s*)*"
    r"|PYTHONWARNINGS=(?:ignore|error|default|always|module|once)?|PYTHONINSPECT="
    r"|PYTEST_ADDOPTS=(?:(?!-\w*[pco]\b)-\S+\s*|[\w./:]+\s*)*"
    r"|RUSTC_BOOTSTRAP=\d*|RUST\w*_LOG=.*|CC=(?:gcc|clang|cc)[\d.-]*|CXX=(?:g\+\+|clang\+\+|c\+\+)[\d.-]*"
    r"|ENV=(?:dev|test|prod|staging|ci|local)\w*|MAKE=g?make",
    re.DOTALL,
)
"""Matches a name and a value that runs nothing, joined by `=`."""
_CHOSEN_LATER = re.compile(r"[A-Za-z_]\w*")
_PAIR = re.compile(r"(?<![\w$./-])([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=([^\s;|&()]*)")
_BEFORE = (
    r""
    r"(?:[A-Za-z_]\w*\+?=\S*\s+|(?:builtin|command|exec|coproc|time|!|\{|if|then|elif|else|while|until|do)\s+|\\)*"
)
_SETTERS = re.compile(rf"{_BEFORE}(?:read|mapfile|readarray|getopts|printf\s+-v|let)\b")
_EXPORTS = re.compile(rf"{_BEFORE}(?:export|declare|typeset|local|readonly)\b")
_QUOTING = re.compile(r"['\"\\]")


def chooses(name: str, value: str) -> bool:
    """Whether a variable with this value can make a program run another; the value may contain
    `HOLE`."""
    if name.startswith(HOLE):
        return True
    if _FULL.fullmatch(name) is None or (
        HOLE not in value and _HARMLESS.fullmatch(f"{name}={value}")
    ):
        return False
    if HOLE in value and re.fullmatch(r"GIT_(?:AUTHOR|COMMITTER)_\w+", name):
        return False
    return _WHERE_CODE_IS.fullmatch(name) is None or _is_elsewhere(value)


def assigned(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables that an `export` or a similar builtin sets, and their values."""
    bare = _QUOTING.sub("", text)
    for name, value in _PAIR.findall(bare):
        yield name, HOLE if "$" in value or "`" in value else value
    if re.search(r"\s(?:\$|`)|\s-\w*n\w*\s", bare):
        yield HOLE, HOLE


def assigned_by(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables that a simple command sets, if it is a builtin that does."""
    if _EXPORTS.match(text):
        yield from assigned(text)
    if _SETTERS.match(text):
        yield from ((name, HOLE) for name in _CHOSEN_LATER.findall(text))


def _is_elsewhere(value: str) -> bool:
    """Whether a search path leads out of the workspace, whose own code is like a script in it."""
    return any(
        part.startswith(("/", "~", HOLE)) or ".." in part.split("/") for part in value.split(":")
    )
