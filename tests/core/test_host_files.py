"""Files that run outside the sandbox later are asked about, and what is edited all day is
not."""

from pathlib import Path

from codeagent.core.host_files import NEVER, kinds, parse, table
from codeagent.core.paths import git_layout, host_reason, plain_name, watched
from codeagent.core.policy import ApprovalKey, Policy
from tests.table import for_each

RUNS = {
    "enters the folder": (
        ".envrc mise.toml .mise.toml .tool-versions flake.nix shell.nix sub/.envrc"
    ),
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
SIBLINGS = (
    "tox.toml pytest.toml gems.rb Directory.Build.rsp app.csproj.user lib.fsproj.user karma.conf.js wdio.conf.ts "
    "gatsby-node.js gatsby-config.ts hardhat.config.cjs lakefile.lean lakefile.toml rebar.config.script .renovaterc "
    ".renovaterc.json5 app.sln app.slnx web.esproj db.sqlproj webpack.dev.js jest.setup.ts vitest.workspace.ts "
    "knip.ts Snapfile Appraisals PKGBUILD .pnpmfile.mjs .eleventy.js .adonisrc.json Dockerfile.prod GNUmakefile.am "
    "gptme.toml .gptme/x.toml azure-pipelines.yaml docker-compose-dev.yml .lighthouserc.js lighthouserc.json"
)
"""Names that ask because a sibling does, or because a collection has them."""
OF_A_CLASS = (
    "brandnew.config.js brandnew.config.mts sub/brandnew.config.json brandnew.conf.ts brandnew.config.prod.cjs "
    ".brandnewrc sub/.brandnewrc.yml src/.brandnewrc.cjs .brandnew.js .brandnew.toml brandnewrc.js Brandfile "
    "packages/a/Brandfile x.brandproj .brandrules .brandagent/settings.local.json .brandagent/hooks/x.sh "
    "sub/.brandagent/mcp.json .brandagent/skills/a/SKILL.md"
)
"""Names of tools that no table has."""
ALIKE = (
    "config.json settings.json data.json app.json src/brandnew.config.ts src/app/app.config.ts lib/x.config.js "
    "tests/fixtures/x.config.js test-results/.last-run.json src/.hidden.json dist/.vite.json .cache/settings.json "
    ".build/plugins/x.json "
    ".next/settings.json .mypy_cache/settings.json config/settings.py hooks/useUser.ts src/hooks/x.ts commands/run.py "
    "vite.config.js.map eslint.config.d.ts src/arc.js search.js profile logfile readprofile netrc.py file "
    "tsconfig.json tsconfig.build.json .nvmrc .browserslistrc codecov.yml .markdownlint.json .jshintrc ruff.toml "
    "appsettings.json openapi.yaml routes.ts webpack.md next.js src/vue.runtime.js makefile.py dockerfile.md mise.lock"
)
"""Names that look like one and are none, or only data."""
BEFORE = Path(__file__).with_name("host_files_examples.txt")
"""An example of every name that was known when the tables were made, and the same in folders."""
SPELLINGS = [
    "MAKEFILE",
    "Package.JSON",
    "conftest.py.",
    "conftest.py ",
    "ｍakefile",
    "make\u200bfile",
    ".VSCode/tasks.json",
    ".vscode /x",
    "Makefile::$DATA",
    ".GitHub/workflows/x.yml",
]


@for_each(
    ("when", "path"), [(when, path) for when, paths in RUNS.items() for path in paths.split()]
)
def test_what_runs_outside_the_sandbox_is_known_and_it_is_said_when(when: str, path: str) -> None:
    reason = host_reason(path)
    assert reason is not None
    assert reason.startswith(path)
    assert when in reason
    assert "outside the sandbox" in reason


@for_each("path", [*SIBLINGS.split(), *OF_A_CLASS.split()])
def test_the_tools_that_no_one_listed_are_known_by_their_siblings_and_by_classes(path: str) -> None:
    assert host_reason(path) is not None


@for_each("path", ALIKE.split())
def test_what_only_looks_like_a_configuration_is_not_asked_about(path: str) -> None:
    assert host_reason(path) is None


def test_every_name_that_was_ever_known_is_still_known() -> None:
    known = BEFORE.read_text(encoding="utf-8").split()
    assert len(known) > 800
    assert [name for name in known if host_reason(name) is None] == []


@for_each("name", ["host_files", "known_tools"])
def test_a_table_has_each_name_once_folded_and_sorted_below_a_heading(name: str) -> None:
    rows = list(parse(table(name)))
    assert len({pattern for pattern, _ in rows}) == len(rows) > 100
    for heading in dict.fromkeys(heading for _, heading in rows):
        names = [pattern for pattern, its in rows if its == heading]
        assert heading
        assert names == sorted(names)
        assert [one for one in names if one != plain_name(one)] == []
        assert [
            one for one in names if one.count("*") > 1 or "/" in one[:-1] or one in ("*", "/")
        ] == []


def test_every_collection_is_named_with_its_licence() -> None:
    headings = {heading for _, heading in parse(table("known_tools"))}
    assert len(headings) == 3
    assert all(heading.rpartition(", ")[2] in ("ISC", "MIT", "Apache-2.0") for heading in headings)


def test_each_line_of_the_tables_says_what_is_asked_about_and_what_never_is() -> None:
    by_hand = list(parse(table("host_files")))
    never = {name for name, heading in by_hand if heading == NEVER}
    for name, _ in (*by_hand, *parse(table("known_tools"))):
        assert (host_reason(name.replace("*", "x")) is None) is (name in never), name


@for_each("path", SPELLINGS)
def test_another_spelling_of_the_same_name_is_no_way_around(path: str) -> None:
    assert host_reason(path) is not None


@for_each("path", EVERYDAY.split())
def test_what_is_edited_all_day_and_runs_by_nobody_is_not_asked_about(path: str) -> None:
    assert host_reason(path) is None


def test_a_link_under_the_name_of_such_a_folder_counts_as_one() -> None:
    assert host_reason(".vscode") is not None
    assert watched("sub/.husky")


@for_each(
    "path", [".venv/bin/activate", "a/node_modules/b/index.js", "node_modules/a/.vscode/x.json"]
)
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
    assert len(RUNS) == len(kinds())
    assert all(any(when in kind for when in RUNS) for kind in kinds())


@for_each("mode", ["ask", "accept-edits", "auto"])
def test_no_mode_answers_for_the_user(mode: str) -> None:
    key = ApprovalKey("path", ("Makefile",), sensitive=host_reason("Makefile"))
    verdict = Policy(mode).check("edit", key, "prompt", "files")  # type: ignore[arg-type]  # literals
    assert verdict.permission == "prompt"
    assert verdict.reason == host_reason("Makefile")
