"""Files in which a program of the person's finds what to run, by name: what is written there runs outside the sandbox.

A file is here if a command, or the name of code to load, stands in it and a tool takes it from there without being
told: on entering the folder, on opening it, on a commit, an install, a build or a test, in continuous integration. Not
here is what the person edits all day and nothing picks up by itself: source files, lists of packages, settings of
formatters, `.gitignore`, `.editorconfig`.
"""

import re
from typing import NamedTuple


class HostFiles(NamedTuple):
    when: str
    """Where and when it runs, as a phrase."""
    names: re.Pattern[str]
    """Of the file, folded: lower case, see `paths.plain_name`."""
    folders: frozenset[str] = frozenset()
    """Everything below a folder of this name."""


def _names(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_HERE = "may run on your machine, outside the sandbox: "
_TOOL = (
    r"(eslint|prettier|stylelint|commitlint|lint-staged|babel|vite|vitest|jest|karma|wdio|playwright|cypress|webpack|rollup"
    r"|rspack|rsbuild|esbuild|tsup|metro|next|nuxt|svelte|astro|remix|gatsby|vue|tailwind|postcss|uno|docusaurus|craco)"
)
"""Whose configuration is a program, in a file `TOOL.config.EXTENSION`."""
_VARIANT = r"(\.(?!(py|rs|go|js|ts|rb|java|md|txt)$).+)?"
"""`Dockerfile.dev`, and not `makefile.py`."""

HOST_FILES: tuple[HostFiles, ...] = (
    HostFiles(
        _HERE + "as soon as a shell enters the folder",
        _names(
            r"\.envrc", r"\.?mise(\..+)?\.toml", r"\.tool-versions", r"\.autoenv(\.zsh)?", r"flake\.nix",
            r"shell\.nix", r"default\.nix", r"devenv\.nix",
        ),
        frozenset({".direnv", ".mise"}),
    ),
    HostFiles(
        _HERE + "when an editor opens the folder",
        _names(
            r".+\.code-workspace", r".+\.sublime-project", r"\.exrc", r"\.n?vimrc", r"\.nvim\.lua",
            r"\.dir-locals(-2)?\.el", r"\.devcontainer\.json", r".+\.iml", r"\.project",
        ),
        frozenset({".vscode", ".idea", ".fleet", ".zed", ".devcontainer", ".vs", ".nvim"}),
    ),
    HostFiles(
        _HERE + "when git is used",
        _names(
            r"\.pre-commit-(config|hooks)\.ya?ml", r"\.?lefthook(-local)?\.(ya?ml|toml|json)", r"\.overcommit\.yml",
            r"\.lintstagedrc(\..+)?", r"\.gitattributes", r"\.gitmodules", r"\.gitconfig", r"\.huskyrc(\..+)?",
            r"\.commitlintrc(\..+)?",
        ),
        frozenset({".husky", ".githooks", ".git-hooks", ".lefthook", ".git_hooks"}),
    ),
    HostFiles(
        "may run outside the sandbox: in continuous integration, with what is secret there",
        _names(
            r"\.gitlab-ci\.ya?ml", r"jenkinsfile(\..+)?", r"azure-pipelines.*\.ya?ml", r"\.travis\.ya?ml",
            r"\.?appveyor\.ya?ml", r"bitbucket-pipelines\.ya?ml", r"\.drone\.(ya?ml|star)", r"\.woodpecker\.ya?ml",
            r"\.cirrus\.(ya?ml|star)", r"cloudbuild\.(ya?ml|json)", r"buildspec\.ya?ml", r"\.semaphore\.ya?ml",
        ),
        frozenset({
            ".github", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".forgejo", ".gitea", ".azure-pipelines",
            ".teamcity",
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
        ),
        frozenset({".cargo", ".mvn", "gradle", ".bundle"}),
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
        ),
        frozenset({".yarn", ".venv", "venv", "node_modules", "site-packages", ".tox", ".nox", ".ssh"}),
    ),
    HostFiles(
        _HERE + "when a coding agent works here: it says what that may run",
        _names(
            r"\.?mcp\.json", r"(agents|claude|gemini)(\.local|\.override)?\.md",
            r"\.(cursor|windsurf|cline|roo|goose)rules", r"\.aider.*", r"\.clinerules.*", r"\.goosehints",
        ),
        frozenset({
            ".claude", ".cursor", ".windsurf", ".codex", ".gemini", ".continue", ".roo", ".cline", ".amazonq",
            ".kiro", ".opencode", ".agents",
        }),
    ),
)  # fmt: skip
