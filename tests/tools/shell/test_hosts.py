"""The hosts that a command is known to need, as its question names them."""

from codeagent.tools.shell.hosts import hosts_needed
from codeagent.tools.shell.syntax import command_key
from tests.table import for_each

PYPI = ("pypi.org", "files.pythonhosted.org")
CRATES = ("index.crates.io", "static.crates.io", "crates.io")
GO = ("proxy.golang.org", "sum.golang.org")


def known(command: str) -> tuple[str, ...]:
    return hosts_needed(command_key(command).parts)


@for_each(
    ("command", "hosts"),
    [
        ("pip install flask", PYPI),
        ("cd x && python3 -m pip install 'a b' 2>&1 | tail -3", PYPI),
        ("PIP_NO_COLOR=1 pip -q install x", PYPI),
        ("uv sync --locked", PYPI),
        ("uvx ruff", PYPI),
        (".venv/bin/pip install x; .venv/bin/python -m pip install y", PYPI),
        ("npm ci", ("registry.npmjs.org",)),
        ("npx eslint .", ("registry.npmjs.org",)),
        ("yarn", ("registry.yarnpkg.com",)),
        ("cargo build", CRATES),
        ("go mod download", GO),
        ("pip install x && cargo fetch", PYPI + CRATES),
        ("sh -c 'pip install x'", PYPI),
        ('curl -sS "https://example.org/a?b=c" -o x', ("example.org",)),
        ("python3 -c \"open_it('https://example.org')\"", ("example.org",)),
        ("git clone https://Example.org:443/x.git", ("example.org",)),
        ("pip install git+https://example.org/x", ("example.org", *PYPI)),
        ("pip install --index-url=https://mirror.org/simple x", ("mirror.org",)),
        ("for x in a b; do curl https://a.org/$x; done", ("a.org",)),
    ],
)
def test_the_hosts_of_plain_addresses_and_of_a_registry_are_known(
    command: str, hosts: tuple[str, ...]
) -> None:
    assert known(command) == hosts


@for_each(
    "command",
    [
        "make deps",
        "pip list",
        "npm run build",
        "npm test",
        "cargo build --offline",
        "pip install --no-index x",
        "curl https://$HOST/",
        "curl https://pypi.org@evil.org/",
        "curl 'https://pypi.org\\@evil.org/'",
        "curl https://pypi.org%2eevil.org/",
        "curl https://evil.org:8443/",
        "curl https://1.2.3.4/ http://[::1]/ http://127.1/",
        "curl https://pypi.org.:443x/",
        "curl ftp://a.org/",
        "echo pipinstall; pipx",
        "",
    ],
)
def test_what_is_not_plain_to_see_is_not_known(command: str) -> None:
    assert known(command) == ()


def test_a_question_names_a_bounded_number_of_hosts() -> None:
    assert len(hosts_needed(tuple(f"curl https://h{number}.org/" for number in range(100)))) == 16
