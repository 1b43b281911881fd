"""T14, T15: files that run outside the sandbox later are asked about, and what is edited all day is not."""

from codeagent.core.paths import HOST_FILES, git_layout, host_reason, watched
from codeagent.core.policy import ApprovalKey, Policy
from tests.table import for_each

RUNS = {
    "enters the folder": (".envrc mise.toml .mise.toml .tool-versions flake.nix shell.nix sub/.envrc"),
    "an editor opens": (
        ".vscode/tasks.json .vscode/a/b.json .idea/workspace.xml a/.idea/x app.code-workspace .exrc .nvim.lua "
        ".dir-locals.el .devcontainer/devcontainer.json .devcontainer.json .zed/tasks.json "
        ".lvimrc .ycm_extra_conf.py .gitpod.yml .replit replit.nix .helix/languages.toml .vim/coc-settings.json "
        ".luarc.json hie.yaml .merlin .clangd .idx/dev.nix .tm_properties .vimspector.json "
        ".settings/x.prefs nbproject/a.xml"
    ),
    "git is used": (
        ".pre-commit-config.yaml .pre-commit-hooks.yaml .husky/pre-commit lefthook.yml .lintstagedrc.json "
        ".gitattributes sub/.gitattributes .gitmodules .githooks/pre-push .overcommit.yml "
        ".hg/hgrc sub/.hg/hgrc .jj/repo/config.toml simple-git-hooks.json .czrc .arclint .reviewboardrc"
    ),
    "continuous integration": (
        ".github/workflows/ci.yml .github/actions/a/action.yml .gitlab-ci.yml .circleci/config.yml Jenkinsfile "
        "azure-pipelines.yml .travis.yml .drone.yml bitbucket-pipelines.yml .buildkite/pipeline.yml "
        ".builds/a.yml .build.yml .tekton/run.yaml .semaphore/a.yml netlify.toml .zuul.yaml Earthfile "
        ".goreleaser.yml"
    ),
    "built, installed or tested": (
        "Makefile makefile GNUmakefile sub/Makefile rules.mk justfile .justfile Taskfile.yml package.json "
        "packages/a/package.json conftest.py tests/unit/conftest.py setup.py setup.cfg pyproject.toml noxfile.py "
        "tox.ini pytest.ini CMakeLists.txt build.rs Cargo.toml .cargo/config.toml rust-toolchain.toml "
        "build.gradle.kts settings.gradle gradlew gradlew.bat gradle/wrapper/gradle-wrapper.properties mvnw "
        ".mvn/wrapper/x.properties pom.xml Rakefile Gemfile a.gemspec Vagrantfile Dockerfile app.Dockerfile "
        "Dockerfile.dev docker-compose.yml compose.yaml vite.config.ts eslint.config.js .eslintrc.json .prettierrc "
        ".babelrc Gruntfile.js gulpfile.ts composer.json mix.exs deno.json WORKSPACE app.csproj "
        "app.vcxproj Directory.Build.targets my.targets my.props App.xcodeproj/project.pbxproj Tiltfile "
        "mkdocs.yml cdk.json nodemon.json conf.py docs/conf.py Pipfile hatch_build.py phpunit.xml "
        ".sequelizerc angular.json dune-project Makefile.PL app.podspec skaffold.yaml BUILD .air.toml "
        "Doxyfile tauri.conf.json .storybook/main.js .config/nextest.toml"
    ),
    "reads it starts": (
        ".npmrc .yarnrc .yarnrc.yml .yarn/releases/yarn.cjs .pnp.cjs .pnp.loader.mjs .pnpmfile.cjs .ripgreprc "
        "sitecustomize.py usercustomize.py x.pth .bazelrc .pdbrc .gdbinit .bashrc .zshrc .profile "
        ".venv/bin/activate node_modules/a/index.js .ssh/config mypy.ini .pylintrc "
        ".Rprofile .ghci .ocamlinit .iex.exs .formatter.exs .rubocop.yml .flake8 ansible.cfg .lintr .erlang "
        "ipython_config.py jupyter_server_config.py gunicorn.conf.py .luacheckrc .perlcriticrc .valgrindrc "
        "app-gdb.py .golangci.yml .bazeliskrc .jvmopts"
    ),
    "a coding agent works": (
        ".mcp.json mcp.json .claude/settings.json .cursor/mcp.json AGENTS.md CLAUDE.md sub/AGENTS.md "
        "CLAUDE.local.md GEMINI.md .cursorrules .windsurf/rules.md .codex/config.toml .aider.conf.yml "
        "opencode.json crush.json QWEN.md .qwen/settings.json CRUSH.md .rules WARP.md .goose/x "
        ".junie/guidelines.md .kilocode/mcp.json"
    ),
}
EVERYDAY = (
    "README.md CHANGELOG.md LICENSE src/main.py src/app.py src/config.py tests/test_a.py src/index.ts src/app.config.ts"
    " src/package.py src/makefile.py src/conftest_helpers.py lib.rs src/lib.rs main.go go.mod go.sum requirements.txt"
    " Cargo.lock package-lock.json yarn.lock poetry.lock uv.lock tsconfig.json .gitignore .dockerignore .editorconfig"
    " .env.example docs/index.md docs/agents.rst src/agents.py docs/claude/x.md data/x.json config.yaml settings.toml"
    " styles.css index.html scripts/release.py a.sql a.sh Main.java src/build.py src/setup/x.py src/tasks.py manage.py"
    " .ruff.toml ruff.toml .clang-format github/a.py vscode/a.ts idea/x.kt src/gradle.py .python-version .nvmrc"
)
SPELLINGS = ["MAKEFILE", "Package.JSON", "conftest.py.", "conftest.py ", "ｍakefile", "make\u200bfile",
             ".VSCode/tasks.json", ".vscode /x", "Makefile::$DATA", ".GitHub/workflows/x.yml"]  # fmt: skip


@for_each(("when", "path"), [(when, path) for when, paths in RUNS.items() for path in paths.split()])
def test_what_runs_outside_the_sandbox_is_known_and_it_is_said_when(when: str, path: str) -> None:
    reason = host_reason(path)
    assert reason is not None
    assert reason.startswith(path)
    assert when in reason
    assert "outside the sandbox" in reason


@for_each("path", SPELLINGS)
def test_another_spelling_of_the_same_name_is_no_way_around(path: str) -> None:
    assert host_reason(path) is not None


@for_each("path", EVERYDAY.split())
def test_what_is_edited_all_day_and_runs_by_nobody_is_not_asked_about(path: str) -> None:
    assert host_reason(path) is None


def test_a_link_under_the_name_of_such_a_folder_counts_as_one() -> None:
    assert host_reason(".vscode") is not None
    assert watched("sub/.husky")


@for_each("path", [".venv/bin/activate", "a/node_modules/b/index.js", "node_modules/a/.vscode/x.json"])
def test_what_a_package_manager_installs_asks_for_a_write_and_is_not_watched(path: str) -> None:
    assert host_reason(path) is not None
    assert not watched(path)


@for_each(
    ("names", "is_one"),
    [
        ("HEAD objects refs", True),
        ("head Objects refs config src", True),
        ("HEAD commondir", True),
        ("HEAD objects", False),
        ("objects refs config hooks", False),
        ("", False),
    ],
)
def test_what_git_takes_for_a_repository_is_known_by_its_names(names: str, is_one: bool) -> None:
    assert git_layout(names.split()) is is_one


def test_every_kind_of_file_is_in_the_table_above() -> None:
    assert len(RUNS) == len(HOST_FILES)
    assert all(any(when in kind.when for when in RUNS) for kind in HOST_FILES)


@for_each("mode", ["ask", "accept-edits", "auto"])
def test_no_mode_answers_for_the_user(mode: str) -> None:
    key = ApprovalKey("path", ("Makefile",), sensitive=host_reason("Makefile"))
    verdict = Policy(mode).check("edit", key, "prompt", "files")  # type: ignore[arg-type]  # literals
    assert verdict.permission == "prompt"
    assert verdict.reason == host_reason("Makefile")
