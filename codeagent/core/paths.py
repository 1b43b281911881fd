"""Names that are special everywhere: protected from writes, likely to hold secrets, or run by other programs."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

_PROTECTED = re.compile(r"\.git|git~\d+|\.codeagent|codeag~\d+")
_SECRET = re.compile(
    r"\.env(\..+)?|.+\.env"
    r"|.+\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?(\..+)?"
    r"|\.(netrc|pgpass|npmrc|pypirc|git-credentials|htpasswd|dockercfg|vault-token)"
    r"|credentials(\.(json|ya?ml|toml|ini|csv))?"
    r"|secrets?\.(json|ya?ml|toml|ini|env|txt)"
    r"|service[-_]account.*\.json"
)
_HARMLESS = re.compile(r"\.env\.(example|sample|template|dist|defaults?)|.+\.pub")
_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".azure"})
_IGNORABLE = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0}
_TAGS = range(0xE0000, 0xE1000)


def ignorable(char: str) -> bool:
    """Whether the code point counts for a program but is invisible."""
    return ord(char) in _IGNORABLE or ord(char) in _TAGS


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return the name as the most forgiving file system would see it.

    NFKC and case folded, without ignorable code points, stream suffix, trailing dots and spaces.
    """
    visible = "".join(c for c in name if unicodedata.category(c) not in ("Cf", "Cc", "Cs") and not ignorable(c))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
    plain = "".join(c for c in folded if not ignorable(c))
    return plain.split(":", 1)[0].strip().rstrip(". ")


def protected_part(path: str) -> str | None:
    """Return the component that protects the path from every tool: any spelling of `.git` or `.codeagent`."""
    parts = path.replace("\\", "/").split("/")
    return next((part for part in parts if part and _PROTECTED.fullmatch(plain_name(part))), None)


def secret_reason(path: str) -> str | None:
    """Return why the file may hold secrets, as a phrase; None if its name does not say so."""
    *folders, name = [plain_name(part) for part in path.split("/") if part] or [""]
    if any(folder in _SECRET_FOLDERS for folder in folders):
        return f"{path} is in a folder that usually holds credentials"
    if _SECRET.fullmatch(name) and not _HARMLESS.fullmatch(name):
        return f"{path} looks like a file of secrets"
    return None


def host_reason(path: str) -> str | None:
    """Return why a change to the file may run something outside the sandbox, as a phrase; None if it will not."""
    *folders, name = [part for part in path.split("/") if part] or [""]
    when = next((found for folder in folders if (found := _host_folder(folder))), "") or _host_name(name)
    return f"{path} {when}" if when else None


def watched(path: str) -> bool:
    """Whether the file is compared after every command: it may run outside the sandbox and is not a package's own."""
    return installed_in(path) is None and host_reason(path) is not None


def watched_folder(path: str) -> bool:
    """Whether every file below the folder is `watched`."""
    return installed_in(path) is None and any(_host_folder(part) for part in path.split("/"))


def installed_in(path: str) -> str | None:
    """Return the outermost folder on the path that a package manager fills; None if there is none."""
    parts = path.split("/")
    found = next((at for at, part in enumerate(parts) if plain_name(part) in INSTALLED), None)
    return None if found is None else "/".join(parts[: found + 1])


GIT_RUNS = ("config", "config.worktree", "commondir", "hooks")
"""The files of a git directory that decide what git runs."""
_GIT_NAMES = frozenset({"head", "objects", "refs", "info", *GIT_RUNS})
"""The files that make a folder a git directory, folded."""


def git_layout(names: Iterable[str]) -> bool:
    """Whether git takes a folder with these names in it for a repository, whatever the folder is called."""
    found = {name.lower() for name in names}
    return "head" in found and ("commondir" in found or {"objects", "refs"} <= found)


def in_git_layout(name: str) -> bool:
    """Whether a file or folder of this name in a git directory may decide what git runs."""
    return plain_name(name) in _GIT_NAMES


@lru_cache(maxsize=4096)
def _host_folder(name: str) -> str:
    folded = plain_name(name)
    return next((kind.when for kind in HOST_FILES if folded in kind.folders), "")


@lru_cache(maxsize=4096)
def _host_name(name: str) -> str:
    """Return when a file of this name runs, as a phrase; a link may have a folder's name and lead to one."""
    folded = plain_name(name)
    found = (kind for kind in HOST_FILES if _pattern(kind.names).fullmatch(folded) or folded in kind.folders)
    return next((kind.when for kind in found), "")


class HostFiles(NamedTuple):
    when: str
    """Where and when it runs, as a phrase."""
    names: str
    """A regular expression for the file's name, folded: see `plain_name`."""
    folders: frozenset[str] = frozenset()
    """Everything below a folder of this name."""


def _names(*patterns: str) -> str:
    return "|".join(patterns)


@cache
def _pattern(names: str) -> re.Pattern[str]:
    """Compile the pattern when it is first needed: all of them take 7 ms."""
    return re.compile(names)


_HERE = "may run on your machine, outside the sandbox: "
_TOOL = (
    r"(eslint|prettier|stylelint|commitlint|lint-staged|babel|vite|vitest|jest|karma|wdio|playwright|cypress|webpack|rollup"
    r"|rspack|rsbuild|esbuild|tsup|tsdown|metro|next|nuxt|svelte|astro|remix|gatsby|vue|tailwind|postcss|uno|docusaurus"
    r"|craco|snowpack|panda|drizzle|knip|syncpack|graphql|codegen|apollo|capacitor|electron|electron\.vite|forge|quasar"
    r"|nitro|build|sst|wxt|histoire|size-limit|cspell|release|react-native|ava|release-it)"
)
"""Tools whose configuration is a program, in a file `TOOL.config.EXTENSION`."""
_VARIANT = r"(\.(?!(py|rs|go|js|ts|rb|java|md|txt)$).+)?"
"""Matches `Dockerfile.dev`, but not `makefile.py`."""

HOST_FILES: tuple[HostFiles, ...] = (
    HostFiles(
        _HERE + "as soon as a shell enters the folder",
        _names(
            r"\.envrc", r"\.?mise(\..+)?\.toml", r"\.tool-versions", r"\.autoenv(\.zsh)?", r"flake\.nix",
            r"shell\.nix", r"default\.nix", r"devenv\.nix",
            r"devenv\.ya?ml", r"devbox\.json", r"pixi\.toml",
        ),
        frozenset({".direnv", ".mise", ".shadowenv.d"}),
    ),
    HostFiles(
        _HERE + "when an editor opens the folder",
        _names(
            r".+\.code-workspace", r".+\.sublime-project", r"\.exrc", r"\.n?vimrc", r"\.nvim\.lua",
            r"\.dir-locals(-2)?\.el", r"\.devcontainer\.json", r".+\.iml", r"\.project",
            r"\.lvimrc", r"\.ycm_extra_conf\.py", r"\.vimspector\.json", r".+\.sublime-(build|workspace)",
            r"\.lite_project\.lua", r"\.luarc\.jsonc?", r"\.clangd", r"hie\.ya?ml", r"\.merlin", r"\.solargraph\.yml",
            r"\.tm_properties", r"\.gitpod\.ya?ml", r"\.gitpod\.dockerfile", r"\.replit", r"replit\.nix",
            r"\.?devfile\.ya?ml", r"\.stackblitzrc", r"\.pyre_configuration", r"\.lazygit\.ya?ml",
        ),
        frozenset({
            ".vscode", ".idea", ".fleet", ".zed", ".devcontainer", ".vs", ".nvim", ".vim", ".helix", ".nova", ".idx",
            ".codesandbox", ".settings", ".externaltoolbuilders", "nbproject", ".ona",
        }),
    ),
    HostFiles(
        _HERE + "when git is used, or another version control",
        _names(
            r"\.pre-commit-(config|hooks)\.ya?ml", r"\.?lefthook(-local)?\.(ya?ml|toml|json)", r"\.overcommit\.yml",
            r"\.lintstagedrc(\..+)?", r"\.gitattributes", r"\.gitmodules", r"\.gitconfig", r"\.huskyrc(\..+)?",
            r"\.commitlintrc(\..+)?",
            r"\.simple-git-hooks\..+", r"simple-git-hooks\..+", r"captainhook\.json", r"grumphp\.ya?ml", r"hk\.pkl",
            r"prek\.toml", r"\.cz(rc|\.json|\.toml|\.ya?ml)", r"\.versionrc(\..+)?", r"\.release(rc|-it)(\..+)?",
            r"\.arc(config|lint)", r"\.reviewboardrc",
        ),
        frozenset({
            ".husky", ".githooks", ".git-hooks", ".lefthook", ".git_hooks", ".hg", ".jj", ".bzr", "_darcs",
        }),
    ),
    HostFiles(
        "may run outside the sandbox: in continuous integration, with what is secret there",
        _names(
            r"\.gitlab-ci\.ya?ml", r"jenkinsfile(\..+)?", r"azure-pipelines.*\.ya?ml", r"\.travis\.ya?ml",
            r"\.?appveyor\.ya?ml", r"bitbucket-pipelines\.ya?ml", r"\.drone\.(ya?ml|star)", r"\.woodpecker\.ya?ml",
            r"\.cirrus\.(ya?ml|star)", r"cloudbuild\.(ya?ml|json)", r"buildspec\.ya?ml", r"\.semaphore\.ya?ml",
            r"\.build\.ya?ml", r"wercker\.ya?ml", r"\.scrutinizer\.ya?ml", r"\.gocd\.ya?ml", r"\.zuul\.ya?ml",
            r"\.drone\.jsonnet", r"\.vsts-ci\.ya?ml", r"screwdriver\.ya?ml", r"\.cnb\.ya?ml", r"dagger\.json",
            r"earthfile", r"netlify\.toml", r"vercel\.json", r"render\.ya?ml", r"railway\.(json|toml)", r"heroku\.yml",
            r"amplify\.yml", r"renovate\.json5?", r"\.goreleaser\.ya?ml",
        ),
        frozenset({
            ".github", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".forgejo", ".gitea", ".azure-pipelines",
            ".teamcity", ".builds", ".tekton", ".semaphore", ".harness", ".azuredevops", ".zuul.d", ".dagger",
        }),
    ),
    HostFiles(
        _HERE + "when the project is built, installed or tested",
        _names(
            r"(gnu|bsd)?makefile" + _VARIANT, r".+\.mk", r"\.?justfile", r".+\.just", r"taskfile(\.dist)?\.ya?ml",
            r"rakefile", r".+\.rake", r"package\.json", r"gulpfile\..+", r"gruntfile\..+", _TOOL + r"\.config\..+",
            r"\.(eslint|prettier|babel|mocha|stylelint|postcss|swc|nyc)rc(\..+)?", r"deno\.jsonc?", r"bunfig\.toml",
            r"conftest\.py", r"setup\.(py|cfg)", r"pyproject\.toml", r"noxfile\.py", r"tox\.ini", r"pytest\.ini",
            r"\.pytest\.ini", r"fabfile\.py", r"dodo\.py", r"wscript", r"sconstruct", r"sconscript",
            r"cmakelists\.txt", r".+\.cmake", r"cmake(user)?presets\.json", r"meson\.build", r"configure(\.ac|\.in)?",
            r"build\.rs", r"cargo\.toml", r"rust-toolchain(\.toml)?", r".+\.gradle(\.kts)?", r"gradlew(\.bat)?",
            r"gradle\.properties", r"mvnw(\.cmd)?", r"pom\.xml", r"build\.sbt", r"build\.xml", r"gemfile",
            r".+\.gemspec", r"podfile", r"vagrantfile", r"dangerfile", r"fastfile", r"brewfile", r"procfile",
            r"package\.swift", r"composer\.json", r"mix\.exs", r"rebar\.config", r"build\.zig", r"build\.bazel",
            r"workspace(\.bazel)?", r"module\.bazel", r"directory\.build\.(props|targets)", r".+\.(cs|fs|vb)proj",
            r"setup\.hs", r"(docker|container)file" + _VARIANT, r".+\.dockerfile", r"(docker-)?compose(\..+)?\.ya?ml",
            r"magefile\.go",
            r".+\.vcxproj(\.user)?", r".+\.(targets|props)", r"nuget\.config", r"global\.json", r".+\.pbxproj",
            r".+\.xcscheme", r"project\.swift", r".+\.podspec", r"cartfile", r"tiltfile", r"skaffold\.ya?ml",
            r"devspace\.ya?ml", r"garden\.ya?ml", r"werf\.ya?ml", r"helmfile(\..+)?\.ya?ml", r"terragrunt\.hcl",
            r"pulumi(\..+)?\.ya?ml", r"cdk(tf)?\.json", r"samconfig\.toml", r"serverless\.(ya?ml|json|[jt]s)",
            r"wrangler\.(toml|jsonc?)", r"firebase\.json", r"docker-bake\.(hcl|json)", r"mkdocs\.ya?ml", r"conf\.py",
            r"pelicanconf\.py", r"hatch(_build\.py|\.toml)", r"pdm\.toml", r"pipfile", r"buildout\.cfg",
            r"alembic\.ini",
            r"snakefile", r"dvc\.ya?ml", r"dbt_project\.ya?ml", r"\.sqlfluff", r"sqlc\.(ya?ml|json)", r"\.air\.toml",
            r"buf\.gen\.ya?ml", r"cross\.toml", r"bacon\.toml", r"trunk\.toml", r"nextest\.toml",
            r"tauri\.conf\.json5?",
            r"conanfile\.(py|txt)", r"platformio\.ini", r"doxyfile(\..+)?", r"build\.ninja", r"autogen\.sh",
            r".+\.pr[io]",
            r"premake5\.lua", r"xmake\.lua", r"tupfile", r"buck", r"\.buckconfig(\..+)?", r"pants\.toml", r"build",
            r"\.plzconfig(\..+)?", r"jamroot", r"project\.clj", r"(deps|bb|shadow-cljs)\.edn", r"build\.(sc|mill|boot)",
            r".+\.sbt", r"dune(-project|-workspace)?", r".+\.(opam|cabal|nimble|rockspec|gpr)", r"stack\.ya?ml",
            r"cabal\.project(\..+)?", r"setup\.lhs", r"config\.nims", r"nim\.cfg", r"alire\.toml",
            r"(makefile|build)\.pl",
            r"cpanfile", r"\.proverc", r"phpunit\.xml(\.dist)?", r"(phpstan|psalm|phpcs)\.(neon|xml)(\.dist)?",
            r"\.?phpcs\.xml(\.dist)?", r"\.php-cs-fixer(\.dist)?\.php", r"(rector|ecs|castor|deploy|robofile)\.php",
            r"capfile", r"guardfile", r"thorfile", r"steepfile", r"berksfile", r"puppetfile", r"policyfile\.rb",
            r"\.?kitchen\.ya?ml", r"config\.ru", r"pubspec\.ya?ml", r"melos\.ya?ml", r"angular\.json",
            r"(nx|turbo|lerna|rush)\.json",
            r"moon\.ya?ml", r"ember-cli-build\.js", r"\.ember-cli(\.js)?", r"\.parcelrc", r"\.sequelizerc",
            r"knexfile\..+",
            r"ormconfig\..+", r"codegen\.(ya?ml|ts)", r"\.graphqlrc(\..+)?", r"nodemon\.json", r"\.puppeteerrc(\..+)?",
            r"\.size-limit(\..+)?", r"\.(remark|textlint|secretlint|depcheck|ncu|tap|c8|nodemon)rc(\..+)?",
            r"\.markdownlint(-cli2)?\.[cm]?js", r"\.dependency-cruiser\..+", r"\.?dprint\.jsonc?", r"plopfile\..+",
            r"(cucumber|wallaby)\.js", r"(protractor|nightwatch|codecept)\.conf\..+", r"mprocs\.ya?ml",
            r"process-compose\.ya?ml", r"\.?tmux(inator|p)\.ya?ml", r"procfile\..+", r"maskfile\.md", r"west\.yml",
        ),
        frozenset({
            ".cargo", ".mvn", "gradle", ".bundle", ".storybook", ".vitepress", ".vuepress", ".moon", ".config", ".dvc",
            "fastlane", ".terraform",
        }),
    ),
    HostFiles(
        _HERE + "when a program that reads it starts",
        _names(
            r"(site|user)customize\.py", r".+\.pth", r"\.npmrc", r"\.yarnrc(\.ya?ml)?", r"\.pnp\..+",
            r"\.pnpmfile\.c?js", r"\.ripgreprc", r"\.ackrc", r"\.bazelrc", r"\.pdbrc(\.py)?", r"\.pythonrc(\.py)?",
            r"\.pylintrc", r"pylintrc", r"\.?mypy\.ini", r"\.coveragerc", r"\.gdbinit", r"\.lldbinit", r"\.irbrc",
            r"\.pryrc", r"\.rspec", r"\.curlrc", r"\.wgetrc", r"\.(ba|z|k|c|tc)?shrc",
            r"\.(bash_|z)?(profile|login|logout)", r"\.zshenv", r"\.bash_aliases", r"\.inputrc", r"\.tmux\.conf",
            r"\.screenrc", r"\.psqlrc", r"\.sqliterc", r"pip\.conf",
            r"\.rprofile", r"\.renviron", r"\.lintr", r"\.ghci", r"\.ocamlinit", r"\.erlang",
            r"\.(iex|formatter|credo|dialyzer_ignore)\.exs", r"\.rubocop\.yml", r"\.standard\.yml", r"\.simplecov",
            r"\.flake8", r"ansible\.cfg", r"\.ansible-lint", r"ipython_config\.py", r"jupyter(_.+)?_config\.(py|json)",
            r"gunicorn\.conf\.py", r"supervisord\.conf", r"\.golangci\.(ya?ml|toml|json)", r"\.luacheckrc", r"\.busted",
            r"\.perl(critic|tidy)rc", r"\.valgrindrc", r".+-gdb\.(py|gdb|scm)", r"\.(jvm|sbt)opts", r"\.jbangrc",
            r"\.bazeliskrc", r"\.terraformrc", r"\.overmind\.env", r"\.agrc",
        ),
        frozenset({".yarn", ".venv", "venv", "node_modules", "site-packages", ".tox", ".nox", ".ssh"}),
    ),
    HostFiles(
        _HERE + "when a coding agent works here: it says what that may run",
        _names(
            r"\.?mcp\.json", r"(agents|claude|gemini)(\.local|\.override)?\.md",
            r"\.(cursor|windsurf|cline|roo|goose)rules", r"\.aider.*", r"\.clinerules.*", r"\.goosehints",
            r"(qwen|crush|warp|iflow|copilot|codex)\.md", r"agent\.md", r"\.?(opencode|crush)\.jsonc?", r"\.rules",
            r"\.continuerules", r"\.augment-guidelines", r"fastmcp\.json",
        ),
        frozenset({
            ".claude", ".cursor", ".windsurf", ".codex", ".gemini", ".continue", ".roo", ".cline", ".amazonq",
            ".kiro", ".opencode", ".agents", ".agent", ".qwen", ".crush", ".goose", ".augment", ".junie", ".trae",
            ".amp",
            ".factory", ".openhands", ".devin", ".warp", ".kilocode", ".copilot", ".iflow", ".kimi", ".vibe",
        }),
    ),
)  # fmt: skip

INSTALLED = frozenset({".yarn", ".venv", "venv", "node_modules", "site-packages", ".tox", ".nox", ".terraform"})
"""Folders of the table that a package manager fills: a write there asks, an installation by a command is reported."""
