"""Settings and their layers: what wins, what a project may do, and errors that point at the
line."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from codeagent.config.checking import as_given, checked
from codeagent.config.layers import load_settings, parse_rules
from codeagent.config.settings import FileSettings, Settings
from codeagent.core.errors import ConfigError
from codeagent.core.policy import NetworkLevel, Rule
from tests.table import for_each


class Folders:
    """A user's file, a project and an environment to load settings from."""

    def __init__(self, folder: Path) -> None:
        self.user_file = folder / "config/codeagent/config.toml"
        self.workspace = folder / "project"
        self.project_file = self.workspace / ".codeagent/config.toml"
        self.user_file.parent.mkdir(parents=True)
        self.project_file.parent.mkdir(parents=True)
        self.environment: dict[str, str] = {}

    def load(self, **flags: Any) -> Settings:
        return load_settings(
            flags,
            environment=self.environment,
            user_file=self.user_file,
            workspace=self.workspace,
            decides=lambda rule, example: rule.matches(example, "command"),
        )


@pytest.fixture
def place(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_without_any_layer_the_defaults_hold(place: Folders) -> None:
    assert place.load() == Settings()
    assert place.load().model is None


def test_flags_win_over_the_environment_and_the_environment_over_the_users_file(
    place: Folders,
) -> None:
    place.user_file.write_text('model = "from file"\nmode = "plan"\nstrategy = "sequential"\n')
    place.environment = {"CODEAGENT_MODEL": "from environment", "CODEAGENT_MODE": "auto"}
    settings = place.load(model="from flag")
    assert (settings.model, settings.mode, settings.strategy) == ("from flag", "auto", "sequential")


def test_an_empty_variable_counts_as_unset(place: Folders) -> None:
    place.environment = {"CODEAGENT_MODEL": ""}
    assert place.load().model is None


@for_each(
    ("model", "environment", "api_base"),
    [
        (None, {}, "http://127.0.0.1:8080/v1"),
        ("openai/other", {}, "http://127.0.0.1:8080/v1"),
        ("other", {}, "http://127.0.0.1:8080/v1"),
        ("anthropic/x", {}, None),
        ("anthropic/x", {"CODEAGENT_API_BASE": "http://proxy"}, "http://proxy"),
        (
            "anthropic/x",
            {"CODEAGENT_MODEL": "gemini/y", "CODEAGENT_API_BASE": "http://proxy"},
            "http://proxy",
        ),
    ],
)
def test_the_address_of_a_models_server_is_not_used_for_a_model_of_another_provider(
    place: Folders, model: str | None, environment: dict[str, str], api_base: str | None
) -> None:
    place.user_file.write_text('model = "openai/qwen"\napi_base = "http://127.0.0.1:8080/v1"\n')
    place.environment = environment
    assert place.load(**({} if model is None else {"model": model})).api_base == api_base


def test_every_setting_says_where_it_comes_from(place: Folders) -> None:
    place.user_file.write_text(
        'model = "a"\nthinking = "low"\n[limits]\nbudget = 2.0\nmax_turns = 9\n'
        '[web]\nsearch = "brave"\n[provider_tools]\n"openai/*" = ["web_search"]\n'
    )
    place.project_file.write_text(
        'read_only_commands = "ask"\n[limits]\nmax_turns = 5\n[sandbox]\nnetwork = "none"\n'
    )
    place.environment = {"CODEAGENT_MODEL": "b", "CODEAGENT_MODE": "plan"}
    assert place.load(mode="auto").origins == {
        "model": "CODEAGENT_MODEL",
        "mode": "the command line",
        "thinking": str(place.user_file),
        "web.search": str(place.user_file),
        "provider_tools": str(place.user_file),
        "limits.budget": str(place.user_file),
        "limits.max_turns": ".codeagent/config.toml",
        "read_only_commands": ".codeagent/config.toml",
        "sandbox.network": ".codeagent/config.toml",
    }


def test_rules_of_all_layers_add_up(place: Folders) -> None:
    place.user_file.write_text('[rules]\nallow = ["bash(git status*)"]\n')
    place.project_file.write_text('[rules]\ndeny = ["write(secret/**)"]\nask = ["edit"]\n')
    settings = place.load(rules={"allow": ("read",), "deny": ("bash(rm *)",)})
    assert set(parse_rules(settings.rules)) == {
        Rule("auto", "bash", "git status*", "user"),
        Rule("auto", "read", None, "flag"),
        Rule("prompt", "edit", None, "project"),
        Rule("deny", "write", "secret/**", "project"),
        Rule("deny", "bash", "rm *", "flag"),
    }


@for_each(
    ("user", "project", "flag", "held"),
    [
        (None, None, None, "ask"),
        ("open", None, None, "open"),
        ("none", "ask", None, "none"),
        ("open", "allow-list", None, "allow-list"),
        (None, "none", None, "none"),
        ("open", "none", "ask", "ask"),
        ("none", None, "open", "open"),
    ],
)
def test_a_project_can_only_tighten_the_network_and_a_flag_overrides_both(
    place: Folders, user: str | None, project: str | None, flag: str | None, held: str
) -> None:
    for file, level in ((place.user_file, user), (place.project_file, project)):
        file.write_text("" if level is None else f'[sandbox]\nnetwork = "{level}"\n')
    given = {} if flag is None else {"sandbox": {"network": flag}}
    assert place.load(**given).sandbox.network == held


@for_each(
    ("given", "before", "held"),
    [(False, "none", "none"), (False, "open", "ask"), (False, None, "ask"), (True, "none", "ask")],
)
def test_a_resumed_session_reaches_no_more_than_at_its_end_unless_a_flag_says_so(
    place: Folders, given: bool, before: NetworkLevel | None, held: str
) -> None:
    settings = place.load(**({"sandbox": {"network": "ask"}} if given else {}))
    assert settings.network_after(before) == held


def test_a_rule_may_be_a_table_with_examples(place: Folders) -> None:
    place.user_file.write_text(
        '[rules]\nallow = ["read", { rule = "bash(git log *)", matches = ["git log -3"], never = ["git push"] }]\n'
    )
    assert [str(rule) for rule in parse_rules(place.load().rules)] == ["read", "bash(git log *)"]


EXAMPLES = """# mine
[rules]
deny = [{ rule = "bash(rm *)", matches = ["rm -rf x"] }]
allow = [
    "read",
    { rule = "bash(git log *)", never = ["git push"] },
    { rule = "bash(git status*)", matches = ["git status", "git log"], never = [
        "git push",
        "git status -s",
    ] },
]
"""


def test_an_example_that_a_rule_does_not_match_is_named_with_its_line(place: Folders) -> None:
    place.user_file.write_text(EXAMPLES)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value) == (
        f"{place.user_file}:7: rules.allow: bash(git status*) does not allow 'git log', which it must; "
        "nothing was run: change the rule or the example"
    )


def test_an_example_that_a_rule_matches_against_its_word_is_named_with_its_line(
    place: Folders,
) -> None:
    place.user_file.write_text(EXAMPLES.replace(', "git log"]', "]"))
    with pytest.raises(
        ConfigError,
        match=r":9: rules\.allow: bash\(git status\*\) would allow 'git status -s', which",
    ):
        place.load()


def test_the_examples_of_a_projects_rules_are_tried_as_well(place: Folders) -> None:
    place.project_file.write_text('[[rules.deny]]\nrule = "bash(rm *)"\nmatches = [\n  "ls"\n]\n')
    with pytest.raises(
        ConfigError,
        match=r"^\.codeagent/config\.toml:4: rules\.deny: bash\(rm \*\) does not deny 'ls'",
    ):
        place.load()


def test_a_failing_example_cannot_write_to_the_terminal_or_fill_it(place: Folders) -> None:
    place.user_file.write_text(
        f'[[rules.ask]]\nrule = "bash(x)"\nmatches = ["\\u001b[2J\\n{"y" * 500}"]\n'
    )
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_commands_that_only_read_are_asked_about_where_a_file_says_so(place: Folders) -> None:
    assert place.load().read_only_commands == "allow"
    place.user_file.write_text('read_only_commands = "ask"\n')
    assert place.load().read_only_commands == "ask"


def test_a_project_may_have_commands_that_only_read_asked_about_and_not_allowed(
    place: Folders,
) -> None:
    place.user_file.write_text('read_only_commands = "allow"\n')
    place.project_file.write_text('read_only_commands = "ask"\n[rules]\nask = ["edit"]\n')
    assert place.load().read_only_commands == "ask"
    place.project_file.write_text('read_only_commands = "allow"\n[rules]\nask = ["edit"]\n')
    with pytest.raises(ConfigError, match=r":1: read_only_commands cannot be set by a project"):
        place.load()


def test_git_hooks_run_on_commit_only_where_the_users_file_says_so(place: Folders) -> None:
    assert not place.load().commit_hooks
    place.user_file.write_text("commit_hooks = true\n")
    assert place.load().commit_hooks


def test_settings_are_written_as_they_would_be_written_by_hand(place: Folders) -> None:
    place.user_file.write_text(
        '[rules]\nallow = ["read"]\nask = [{ rule = "bash(x*)", matches = ["xy"], never = [] }]\n'
    )
    rules = as_given(place.load())["rules"]["user"]
    assert rules["allow"] == ["read"]
    assert rules["ask"] == [{"rule": "bash(x*)", "matches": ["xy"], "never": []}]
    assert checked(FileSettings, {"rules": rules}).rules.ask[0].matches == ("xy",)


def test_a_project_may_have_ignored_files_asked_about_and_not_taken(place: Folders) -> None:
    place.user_file.write_text('[sandbox]\nignored_files = "take"\nnetwork = "open"\n')
    place.project_file.write_text('[sandbox]\nignored_files = "ask"\n')
    settings = place.load()
    assert (settings.sandbox.ignored_files, settings.sandbox.network) == ("ask", "open")
    assert settings.origins["sandbox.ignored_files"] == ".codeagent/config.toml"
    place.project_file.write_text('[sandbox]\nignored_files = "take"\n')
    with pytest.raises(ConfigError, match=r":2: sandbox.ignored_files cannot be set by a project"):
        place.load()


def test_a_project_lowers_limits_and_never_raises_them(place: Folders) -> None:
    place.user_file.write_text("[limits]\nmax_turns = 30\nbudget = 2.5\n")
    place.project_file.write_text(
        "[limits]\nmax_turns = 50\nmax_calls = 7\nbudget = 1\ntimeout_per_call = 9.5\n"
    )
    limits = place.load().limits
    assert (limits.max_turns, limits.max_calls, limits.budget, limits.timeout_per_call) == (
        30,
        7,
        1,
        9.5,
    )


def test_a_flag_stands_above_the_projects_limit(place: Folders) -> None:
    place.project_file.write_text("[limits]\nmax_turns = 5\n")
    assert place.load(limits={"max_turns": 9}).limits.max_turns == 9


LOOSENING = [
    'model = "x"',
    'api_base = "http://evil.example"',
    'base_url = "x"',
    'api_key = "x"',
    'api_key_env = "HOME"',
    'headers = {a = "b"}',
    'proxy = "x"',
    'https_proxy = "x"',
    'ca_file = "x"',
    'ca_bundle = "x"',
    "telemetry = true",
    'otel_endpoint = "x"',
    'mode = "auto"',
    'mode = "ask"',
    'strategy = "sequential"',
    "yes = true",
    "auto_approve = true",
    "trust = true",
    'state_dir = "/tmp"',
    'data_dir = "x"',
    'hooks = {before_tool = "x"}',
    "commit_hooks = true",
    "commit_hooks = false",
    'read_only_commands = "allow"',
    'env = {A = "b"}',
    'environment = {A = "b"}',
    'mcp = {a = {command = "x"}}',
    'toolsets.use = ["x"]',
    "experimental.partial_results = 30",
    '[queue]\nsteer = "one"',
    'plugins = ["x"]',
    'system_prompt = "x"',
    'sandbox.kind = "off"',
    'sandbox.image = "evil"',
    'sandbox.network = "open"',
    'sandbox.mounts = ["/"]',
    'sandbox.flags = ["--privileged"]',
    'sandbox.user = "root"',
    'sandbox = {image = "evil"}',
    'rules.allow = ["bash"]',
    'rules = {allow = ["bash"]}',
    'rules.auto = ["bash"]',
    '[sandbox]\nkind = "off"',
    '[rules]\nallow = ["bash"]',
    '[provider.openai]\nbase_url = "x"',
    'litellm = {api_base = "x"}',
    'fallback_model = "x"',
    'wire = "litellm"',
    '[network]\nprivate_hosts = ["mirror.corp:443"]',
    'editor = {open = "sh -c id {file}"}',
    '[editor]\ndiff = "sh -c id {before} {after}"',
]


@for_each("line", LOOSENING)
def test_a_project_may_set_nothing_that_loosens_and_the_error_names_file_and_line(
    place: Folders, line: str
) -> None:
    place.project_file.write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(
        ConfigError, match=r"^\.codeagent/config\.toml:[34]: .* cannot be set by a project"
    ):
        place.load()


@for_each(
    ("text", "expected"),
    [
        ("model = 5", ":1: model: input should be a valid string"),
        ('\nmode = "yolo"', ":2: mode: input should be 'ask'"),
        ('modl = "x"', ":1: modl: no such setting; did you mean model?"),
        (
            "[limits]\n# no\nmax_turn = 5",
            ":3: limits.max_turn: no such setting; did you mean limits.max_turns?",
        ),
        ("[limits]\nmax_turns = 0", ":2: limits.max_turns: input should be greater than 0"),
        ("[limits]\nmax_turns = true", ":2: limits.max_turns: input should be a valid integer"),
        ("limits.budget = nan", ":1: limits.budget: input should be a finite number"),
        ('limits = "high"', ":1: limits: input should be a valid dictionary"),
        ('api_base = "ftp://x"', ":1: api_base: must begin with http:// or https://"),
        ('[queue]\nsteer = "two"', ":2: queue.steer: input should be 'all' or 'one'"),
        (
            "[queue]\nfollow_ups = 'all'",
            ":2: queue.follow_ups: no such setting; did you mean queue.follow_up?",
        ),
        ('strategy = "batched:0"', ":1: strategy: use sequential, parallel or batched:N"),
        ('[rules]\n\nallow = ["bash("]', ":3: not a rule: 'bash('"),
        ("[rules]\n\nallow = [\n'bash(x)',\n'bash('\n]", ":5: not a rule: 'bash('"),
        (
            "[rules]\nallow = [5]",
            ":2: rules.allow: a rule is text, or a table with rule, matches and never",
        ),
        (
            "[[rules.deny]]\nrule = 'x'\nmatch = ['y']",
            ":3: rules.deny.match: no such setting; did you mean rules",
        ),
        ("[[rules.deny]]\nmatches = ['y']", ":1: rules.deny.rule: field required"),
        ("[rules]\nalow = []", ":2: rules.alow: no such setting; did you mean rules.allow?"),
        (
            "rules.user.allow = ['bash']",
            ":1: rules.user: no such setting; there are allow, ask, deny",
        ),
        ("[[hooks]]\nevent = 'after_tool'\ncomand = ['x']", ":1: hooks.command: field required"),
        ('read_only_commands = "no"', ":1: read_only_commands: input should be 'allow' or 'ask'"),
        ('commit_hooks = "yes please"', ":1: commit_hooks: input should be a valid boolean"),
        ('[sandbox]\nkind = "off"', ":2: sandbox.kind is not for files"),
        ("zzz = 1", ":1: zzz: no such setting; there are model"),
        ("a = = b", ":1: invalid value"),
        ("x = 1\ny = ", ":2: invalid value"),
        ("[" * 3000, ":1:"),
        ("a = " + "[" * 5000, ":1: nested too deeply"),
    ],
)
def test_a_mistake_in_the_users_file_stops_with_file_line_and_key(
    place: Folders, text: str, expected: str
) -> None:
    place.user_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert str(caught.value).lower().startswith((str(place.user_file) + expected).lower())
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf8_names_the_line(place: Folders) -> None:
    place.user_file.write_bytes(b'model = "x"\n# \xff\n')
    with pytest.raises(ConfigError, match=":2: not UTF-8"):
        place.load()


def test_a_wrong_variable_is_named(place: Folders) -> None:
    place.environment = {"CODEAGENT_MODE": "yolo"}
    with pytest.raises(ConfigError, match=r"^CODEAGENT_MODE: mode: "):
        place.load()


def test_a_wrong_rule_on_the_command_line_is_a_configuration_error(place: Folders) -> None:
    with pytest.raises(ConfigError, match=r"^the command line: not a rule: 'bash\(\)'"):
        place.load(rules={"allow": ("bash()",)})


def test_an_unreadable_users_file_stops_instead_of_starting_with_defaults(place: Folders) -> None:
    place.user_file.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        place.load()


@pytest.mark.parametrize("mode", [0o622, 0o664, 0o666])
def test_a_users_file_that_others_can_change_is_refused(place: Folders, mode: int) -> None:
    place.user_file.write_text('mode = "auto"\n')
    assert place.load().mode == "auto", "the positive control"
    place.user_file.chmod(mode)
    with pytest.raises(ConfigError, match="can be changed by others: chmod go-w"):
        place.load()


def test_a_users_file_in_a_folder_that_others_can_change_is_refused(
    place: Folders, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "config.toml").write_text('mode = "auto"\n')
    place.user_file.symlink_to(shared / "config.toml")
    assert place.load().mode == "auto", "a link of the user's own is followed"
    shared.chmod(0o777)
    with pytest.raises(ConfigError, match=f"{shared} can be changed by others"):
        place.load()


def test_a_users_file_of_another_user_is_refused(
    place: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.user_file.write_text('mode = "auto"\n')
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        place.load()


def test_a_project_file_behind_a_link_is_refused(place: Folders, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("")
    place.project_file.symlink_to(tmp_path / "other.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        place.load()


def test_a_project_folder_behind_a_link_is_refused(place: Folders, tmp_path: Path) -> None:
    place.project_file.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    place.project_file.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="not a plain folder"):
        place.load()


def test_a_fifo_in_place_of_the_project_file_is_refused_without_waiting(place: Folders) -> None:
    os.mkfifo(place.project_file)
    with pytest.raises(ConfigError, match="not a regular file"):
        place.load()


def test_a_huge_project_file_is_refused(place: Folders) -> None:
    place.project_file.write_bytes(b"#" * 300_000)
    with pytest.raises(ConfigError, match="larger than 262144 bytes"):
        place.load()


def test_the_repositorys_dotenv_is_not_read(
    place: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.workspace / ".env").write_text(
        "CODEAGENT_MODEL=evil\nCODEAGENT_API_BASE=http://evil.example\n"
    )
    monkeypatch.chdir(place.workspace)
    assert (place.load().model, place.load().api_base) == (None, None)


def test_every_place_can_only_take_away_from_the_tools_that_may_be_used(place: Folders) -> None:
    assert place.load().tools == ()
    place.user_file.write_text('tools = ["read", "bash"]')
    place.project_file.write_text('tools = ["read", "mcp__*"]')
    assert place.load().tools == (("read", "bash"), ("read", "mcp__*"))
    assert place.load(tools=("write",)).tools == (("write",), ("read", "mcp__*"))
    place.user_file.unlink()
    assert place.load().tools == (("*",), ("read", "mcp__*"))
    place.project_file.write_text('tools = ["bash(ls)"]')
    with pytest.raises(
        ConfigError, match=r"^\.codeagent/config\.toml:1: tools: 'bash\(ls\)' is not a tool's name"
    ):
        place.load()


def test_toolsets_of_the_command_line_come_behind_those_of_the_file(place: Folders) -> None:
    place.user_file.write_text('[toolsets]\nuse = ["github", "web"]\noffer = ["edit"]')
    assert place.load(toolsets={"use": ("web", "linear")}).toolsets.use == (
        "github",
        "web",
        "linear",
    )
    assert place.load(toolsets={"use": ("web",)}).toolsets.offer == ("edit",)


def test_a_group_of_tools_needs_a_source_and_something_to_choose_by(place: Folders) -> None:
    place.user_file.write_text('[toolsets.groups.issues]\nsource = "github"\ntools = ["*issue*"]')
    group = place.load().toolsets.groups["issues"]
    assert (group.source, group.tools, group.tags, group.paths) == ("github", ("*issue*",), (), ())
    for text, why in (
        ('[toolsets.groups.issues]\nsource = "github"', "give tools, tags or paths"),
        ('[toolsets.groups.issues]\ntags = ["x"]', "source: field required"),
        (
            '[toolsets.groups.issues]\nsource = "x"\ntag = ["x"]',
            "no such setting; did you mean toolsets.groups.issues.tag",
        ),
        (
            '[toolsets.groups."a b"]\nsource = "x"\ntags = ["x"]',
            "the name of a toolset is 1 to 64 letters",
        ),
    ):
        place.user_file.write_text(text)
        with pytest.raises(ConfigError, match=re.escape(why)):
            place.load()


def test_the_user_may_name_private_hosts_one_by_one(place: Folders) -> None:
    place.user_file.write_text('[network]\nprivate_hosts = ["mirror.corp:443"]\n')
    assert place.load().network.private_hosts == ("mirror.corp:443",)


@for_each("host", ["*", "*.corp.example", "mirror", "mirror.corp:0", "https://mirror.corp"])
def test_a_private_host_that_is_not_exactly_one_host_is_refused(place: Folders, host: str) -> None:
    place.user_file.write_text(f'[network]\nprivate_hosts = ["{host}"]\n')
    with pytest.raises(ConfigError, match="host"):
        place.load()
