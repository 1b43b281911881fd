"""Secrets of the machine, the environment and the workspace are in no place that a model
or a log has."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.product import Product
from tests.fakes import put
from tests.sandboxes import make_repository
from tests.servers import Turn, openai_server

PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"
VARIABLES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "NPM_TOKEN",
    "DATABASE_URL",
    "SMTP_PASSWORD",
    "VAULT_TOKEN",
    "SLACK_WEBHOOK_SECRET",
    "GIT_CONFIG_VALUE_0",
)
AT_HOME = {
    ".ssh/id_ed25519": PEM,
    ".aws/credentials": "[default]\naws_secret_access_key = {}\n",
    ".netrc": "machine x login y password {}\n",
    ".git-credentials": "https://user:{}@example.org\n",
    ".docker/config.json": '{{"proxies": {{"default": {{"httpProxy": "http://user:{}@proxy.example"}}}}}}',
    ".npmrc": "//registry/:_authToken={}\n",
    ".pypirc": "[pypi]\npassword = {}\n",
    ".kube/config": "token: {}\n",
    ".config/gh/hosts.yml": "oauth_token: {}\n",
    ".gitconfig": '[http]\n\textraHeader = "Authorization: {}"\n',
    ".bash_history": "export TOKEN={}\n",
}
IN_THE_WORKSPACE = {
    ".env": "TOKEN={}\n",
    "api/.env.local": "TOKEN={}\n",
    "deploy/id_rsa": PEM,
    "deploy/server.pem": PEM,
    "web/.npmrc": "//registry/:_authToken={}\n",
    "credentials.json": '{{"secret": "{}"}}',
    ".netrc": "password {}\n",
    "service-account-x.json": '{{"private_key": "{}"}}',
    "secrets.yaml": "token: {}\n",
}
LOOKS = {
    "the environment of commands": "env; cat /proc/*/environ 2> /dev/null | tr '\\0' '\\n'",
    "the files that commands see": (
        "find . ~ /tmp /etc /run /root /home -name lib -prune -o -type f -size -64k -print0 2> /dev/null"
        " | xargs -0 grep -ahE 'CANARY-[a-z]' 2> /dev/null; true"
    ),
    "mounts, arguments and git": "cat /proc/self/mountinfo; ps -ef; cat /proc/*/cmdline; git config --list",
}


def canary(place: str, name: str) -> str:
    return f"CANARY-{place}-{name.lower().replace('/', '-').replace('.', '-').replace('_', '-')}-51f0c7d2e9"


def calls() -> list[Turn]:
    """A model that looks for them everywhere, and asks nobody."""
    commands = tuple(("bash", {"command": text}) for text in LOOKS.values())
    reads = tuple(("read", {"path": path}) for path in IN_THE_WORKSPACE)
    return [
        Turn(calls=commands),
        Turn(calls=reads),
        Turn(calls=(("search", {"pattern": "CANARY-"}),)),
        Turn(text="done"),
    ]


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[tuple[Product, dict[str, str], list[str]]]:
    """The product, its environment, and what must be found nowhere."""
    product = Product(make_repository(tmp_path / "work"), tmp_path / "home")
    user = tmp_path / "user"
    environment = product.environment | {
        "HOME": str(user),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "x.y",
    }
    canaries = []
    for name in VARIABLES:
        canaries.append(canary("variable", name))
        environment[name] = canaries[-1]
    for place, folder, files in (
        ("home", user, AT_HOME),
        ("work", product.workspace, IN_THE_WORKSPACE),
    ):
        for name, text in files.items():
            canaries.append(canary(place, name))
            put(folder, name, text.format(canaries[-1]))
    yield product, environment, canaries


def texts(folder: Path) -> str:
    return "\n".join(
        path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.docker
@pytest.mark.soak(row="secrets")
async def test_no_secret_is_anywhere_after_a_model_looked_for_them(
    planted: tuple[Product, dict[str, str], list[str]], tmp_path: Path, tried: Callable[[int], None]
) -> None:
    product, environment, canaries = planted
    async with openai_server(calls()) as server:
        process = product.start(
            "run",
            "go",
            "--model",
            "openai/fake",
            "--api-base",
            server.base_url,
            "--mode",
            "auto",
            "--output",
            "jsonl",
            env=environment,
        )
        out, err = await asyncio.to_thread(process.communicate, 100)
        sent = json.dumps([request.body for request in server.requests])
    assert process.returncode == 0, err
    results = {
        event["call_id"]: json.dumps(event)
        for event in product.log()
        if event["type"] == "tool.result"
    }
    assert len(results) == len(LOOKS) + len(IN_THE_WORKSPACE) + 1
    exported = [
        product.call("sessions", "export", "--last", "--format", kind).out
        for kind in ("md", "html", "jsonl")
    ]
    ordered = list(results.values())
    places = dict(zip(LOOKS, ordered, strict=False)) | {
        "file tools": "".join(ordered[len(LOOKS) :]),
        "requests to the model": sent,
        "what is printed": out + err,
        "the state folder": texts(product.home),
        "exports": "".join(exported),
    }
    found = [
        (place, secret) for place, text in places.items() for secret in canaries if secret in text
    ]
    assert found == []
    assert all("CANARY" in texts(folder) for folder in (tmp_path / "user", product.workspace)), (
        "the control"
    )
    assert all(exported) and "done" in out
    tried(len(canaries) * len(places))
