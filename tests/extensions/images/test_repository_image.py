"""What a repository describes as its image, and what goes into a build of it; no engine is
asked."""

import errno
import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from codeagent.core.errors import ConfigError, SandboxUnavailable
from codeagent.extensions.images import build as building
from codeagent.extensions.images.build import build, tag_of
from codeagent.extensions.images.repository_image import RepositoryImage, read_repository_image
from codeagent.sandbox.described_image import BuildLimits
from codeagent.sandbox.engine import BuildOptions, Engine, ImageDetails
from tests.table import for_each

JSON = ".devcontainer/devcontainer.json"
QUIET = BuildLimits(network=False, memory_bytes=0)
ID = "0" * 64
"""Of every image there is."""


def repository(folder: Path, **files: str) -> Path:
    """Files by their paths, with `__` for a slash and `DEV` for the devcontainer's own file."""
    for name, text in files.items():
        path = folder / (JSON if name == "DEV" else name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def read(folder: Path, **files: str) -> RepositoryImage:
    found = read_repository_image(repository(folder, **files))
    assert found is not None
    return found


def test_comments_last_commas_and_old_keys_are_understood(tmp_path: Path) -> None:
    text = """{ // "a": 1,
      /* , } */ "dockerFile": "D", "context": "..",
      "build": {"args": {"A": "http://x // y", "B": ",]",},},
    }"""
    found = read(tmp_path, DEV=text, **{".devcontainer__D": "FROM a"})
    assert (found.file, found.dockerfile, found.context, found.text) == (
        JSON,
        ".devcontainer/D",
        ".",
        "FROM a",
    )
    assert found.arguments == {"A": "http://x // y", "B": ",]"}


def test_what_else_it_asks_for_is_named_and_not_applied(tmp_path: Path) -> None:
    text = """{"name": "x", "image": "a", "runArgs": ["--privileged"], "mounts": [], "privileged": true, "features": {},
      "postCreateCommand": "x", "initializeCommand": "x", "customizations": {}}"""
    assert read(tmp_path, DEV=text).ignored == (
        "runArgs",
        "mounts",
        "privileged",
        "features",
        "postCreateCommand",
        "initializeCommand",
    )


def test_an_argument_never_gets_a_variable_of_this_machine(tmp_path: Path) -> None:
    text = '{"build": {"dockerfile": "D", "args": {"A": "1", "T": "${localEnv:TOKEN}"}, "options": ["--secret"]}}'
    found = read(tmp_path, DEV=text, **{".devcontainer__D": "FROM a"})
    assert found.arguments == {"A": "1"}
    assert found.ignored == ("build.options", "build.args.T (it reads this machine's environment)")


@for_each(
    "text, said",
    [
        ("{", f"{JSON} is not JSON"),
        ("[]", "is not an object"),
        ('{"image": "a", /* */ "image": "b"}', "a key is in an object twice"),
        ('{"build": {"args": {"A": "1", "\\u0041": "2"}}}', "a key is in an object twice"),
        ("[" * 100_000, "is not JSON"),
        ('{"dockerComposeFile": "x.yml"}', "dockerComposeFile is not supported"),
        ('{"image": "${localEnv:IMAGE}"}', "takes a variable"),
        ('{"build": 1}', "build is not an object"),
        ('{"build": {"dockerfile": 1}}', "is not text"),
        ('{"build": {"dockerfile": "missing"}}', ".devcontainer/missing does not exist"),
        ('{"build": {"dockerfile": "../../D"}}', "outside this folder"),
        ('{"build": {"dockerfile": "/etc/passwd"}}', "outside this folder"),
        (
            '{"build": {"dockerfile": "devcontainer.json", "context": "../.."}}',
            "outside this folder",
        ),
        (
            '{"build": {"dockerfile": "devcontainer.json", "args": {"A": 1}}}',
            "build.args.A is not text",
        ),
        ('{"build": {"dockerfile": "linked"}}', "cannot be read"),
    ],
)
def test_what_cannot_be_built_is_said(
    tmp_path_factory: pytest.TempPathFactory, text: str, said: str
) -> None:
    folder = repository(tmp_path_factory.mktemp("repository"), DEV=text, outside="FROM a")
    (folder / ".devcontainer/linked").symlink_to("../outside")
    with pytest.raises(ConfigError, match=said):
        read_repository_image(folder)


def test_a_devcontainer_comes_before_a_dockerfile_and_neither_is_followed_as_a_link(
    tmp_path: Path,
) -> None:
    assert read_repository_image(tmp_path) is None
    assert read(tmp_path, Dockerfile="FROM a").is_plain
    assert read(tmp_path, DEV='{"image": "b"}').image == "b"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/Dockerfile").symlink_to("../Dockerfile")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_repository_image(tmp_path / "linked")


def test_every_change_of_what_would_be_built_is_another_digest(tmp_path: Path) -> None:
    text = '{"build": {"dockerfile": "D", "args": {"A": "1"}}}'
    found = read(tmp_path, DEV=text, **{".devcontainer__D": "FROM a"})
    changes: tuple[dict[str, Any], ...] = (
        {"file": "x"},
        {"image": "x"},
        {"dockerfile": "x"},
        {"text": "x"},
        {"context": "x"},
        {"ignore": "x"},
        {"arguments": {"A": "2"}},
        {"arguments": {}},
        {"target": "x"},
    )
    assert (
        len({found.digest, *(replace(found, **change).digest for change in changes)})
        == len(changes) + 1
    )
    assert replace(found, ignored=("x",)).digest == found.digest
    copying = replace(found, text="FROM a\nCOPY . .")
    assert tag_of(copying) != tag_of(replace(copying, root=tmp_path / "other")), (
        "other files could be copied"
    )
    assert tag_of(found) == tag_of(replace(found, root=tmp_path / "other"))


class Recorder(Engine):
    """Has the images that it is given, and keeps what it is asked to build."""

    def __init__(self, *there: str) -> None:
        super().__init__("/nowhere")
        self.there = {*there}
        self.pulled: list[str] = []
        self.context: dict[str, tarfile.TarInfo] = {}
        self.contents: dict[str, bytes] = {}
        self.options: list[BuildOptions] = []

    def image_details(self, reference: str) -> ImageDetails | None:
        return (
            ImageDetails(f"sha256:{ID}", (), ("RUN x",) if "onbuild" in reference else (), {})
            if (reference in self.there)
            else None
        )

    def pull(self, reference: str, on_progress: Callable[[str], None]) -> str | None:
        self.pulled.append(reference)
        self.there.add(reference)
        return None

    def tag(self, reference: str, tag: str) -> None:
        self.there.add(tag)

    def build(
        self, tar: BinaryIO, dockerfile: str, options: BuildOptions, on_line: Callable[[str], None]
    ) -> None:
        with tarfile.open(fileobj=io.BytesIO(tar.read())) as packed:
            for entry in packed:
                assert entry.name not in self.context
                self.context[entry.name] = entry
                if entry.isreg() and (file := packed.extractfile(entry)) is not None:
                    self.contents[entry.name] = file.read()
        self.contents["the Dockerfile"] = self.contents.pop(dockerfile)
        del self.context[dockerfile]
        self.options.append(options)
        self.there.add(options.tag)


def made(image: RepositoryImage, engine: Engine, limits: BuildLimits = QUIET) -> None:
    build(engine, image, limits, lambda text: None)


def test_only_what_may_be_seen_goes_into_a_build(tmp_path: Path) -> None:
    image = read(
        tmp_path,
        Dockerfile="FROM a\nCOPY . .",
        **{
            ".dockerignore": "# no\nbuilt\n*.log\n!kept.log",
            "a.py": "1",
            "x.log": "1",
            "kept.log": "1",
            "built__b": "1",
            ".env": "SECRET",
            "sub__id_rsa": "SECRET",
            "sub__ca.pem": "public",
            "sub__own.pem": "PRIVATE KEY",
            "tests__.env": "SECRET",
            ".git__config": "SECRET",
            ".codeagent__config.toml": "SECRET",
            ".codeagent-dockerfile": "FROM evil",
        },
    )
    (tmp_path / "link").symlink_to("/etc/passwd")
    engine = Recorder("a")
    made(image, engine)
    assert (
        engine.contents.pop("the Dockerfile").decode() == f'FROM {ID} AS stage0\nCOPY [".","."]\n'
    )
    assert {*engine.contents} == {".dockerignore", "Dockerfile", "a.py", "kept.log", "sub/ca.pem"}
    assert engine.context["link"].issym() and engine.context["link"].linkname == "/etc/passwd"
    assert b"SECRET" not in b"".join(engine.contents.values())


def test_a_dockerignore_is_read_line_by_line_as_the_engine_reads_it(tmp_path: Path) -> None:
    ignore = "\ufeffone\r\ntwo\x0b!two\n # three\n"
    image = read(
        tmp_path,
        Dockerfile="FROM a\nCOPY . .",
        **{".dockerignore": ignore, "one": "1", "two": "2", "# three": "3"},
    )
    engine = Recorder("a")
    made(image, engine)
    assert {*engine.contents} == {"the Dockerfile", ".dockerignore", "Dockerfile", "two"}


def test_a_dockerfile_that_copies_nothing_is_built_without_any_file(tmp_path: Path) -> None:
    engine = Recorder("a")
    made(read(tmp_path, Dockerfile="FROM a\nRUN x", other="y"), engine)
    assert {*engine.contents} == {"the Dockerfile"}


def test_a_context_that_is_too_large_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "MOST_BYTES", 1000)
    image = read(tmp_path, Dockerfile="FROM a\nCOPY . .", big="x" * 2000)
    with pytest.raises(SandboxUnavailable, match=r"cannot be built: \. has more than") as caught:
        made(image, Recorder("a"))
    assert ".dockerignore" in caught.value.remedy and "sandbox distrust" in caught.value.remedy
    made(read(tmp_path, **{".dockerignore": "big"}), Recorder("a"))


def test_a_context_that_cannot_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    image = read(tmp_path, Dockerfile="FROM a\nCOPY . .", sub__a="1")
    monkeypatch.setattr(building, "open_folder", full)
    with pytest.raises(SandboxUnavailable, match=r"cannot be read \(too many open files\)"):
        made(image, Recorder("a"))


@for_each(
    "text, there, said",
    [
        ("FROM missing:1", ["a"], "missing:1 is not on this machine"),
        ("FROM a\nCOPY --from=missing:1 /x /x", ["a"], "missing:1 is not on this machine"),
        ("ARG X\nFROM $X", ["a"], "the image it begins with has no name"),
        ("FROM ../containers/x", ["../containers/x"], "is not the name of an image"),
        (
            "FROM a\nRUN --mount=type=cache,target=/x y",
            ["a"],
            "--mount=type=cache,target=/x is not supported",
        ),
        ("FROM a\nONBUILD ADD https://x.org/y /y", ["a"], "this instruction is not supported"),
        ("FROM a\nADD https://x.org/y /y", ["a"], "needs the network"),
        ("FROM onbuild", ["onbuild"], "instructions for builds on top of it"),
    ],
)
def test_without_network_nothing_is_fetched(
    tmp_path_factory: pytest.TempPathFactory, text: str, there: list[str], said: str
) -> None:
    engine = Recorder(*there)
    image = read(tmp_path_factory.mktemp("repository"), Dockerfile=text)
    with pytest.raises(SandboxUnavailable, match=said):
        made(image, engine)
    assert engine.options == [] and engine.pulled == []


def test_with_network_what_is_missing_is_pulled_and_commands_get_it(tmp_path: Path) -> None:
    engine = Recorder()
    made(
        read(tmp_path, Dockerfile="FROM missing:1\nADD https://x.org/y /y"),
        engine,
        BuildLimits(True, 0),
    )
    assert engine.pulled == ["missing:1"] and engine.options[0].network


def test_a_named_image_gets_a_name_of_our_own_and_is_not_looked_up_again(tmp_path: Path) -> None:
    image = read(tmp_path, DEV='{"image": "theirs:1"}')
    engine = Recorder("theirs:1")
    made(image, engine)
    engine.there.remove("theirs:1")
    made(image, engine)
    assert engine.options == []
