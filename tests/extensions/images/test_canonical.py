"""The Dockerfile that the engine gets in place of the repository's own says the same, in one
form."""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.extensions.images.build import build, tag_of
from codeagent.extensions.images.canonical import canonical
from codeagent.extensions.images.dockerfile import (
    DockerfileError,
    Instruction,
    expand,
    quoted_words,
)
from codeagent.extensions.images.repository_image import RepositoryImage
from codeagent.sandbox.described_image import BuildLimits
from codeagent.sandbox.dockerfile_words import array, word
from codeagent.sandbox.engine import IMAGES, BuildOptions, Engine, ImageDetails, local_engine
from tests.effort import part
from tests.extensions.images.ordinary_dockerfiles import FILES, ORDINARY
from tests.images import small_image
from tests.table import for_each

ID = "1" * 64
CONTEXT = {
    "a": tarfile.REGTYPE,
    "b.tar": tarfile.REGTYPE,
    "d": tarfile.DIRTYPE,
    "d/c.tar": tarfile.REGTYPE,
    "link": tarfile.SYMTYPE,
    "http:": tarfile.DIRTYPE,
    "http:/x": tarfile.REGTYPE,
    "odd*": tarfile.REGTYPE,
}
ARGUMENTS = {"GIVEN": "9"}


def facts(name: str) -> ImageDetails:
    variables = ("OF_BASE=yes", "PATH=/p", "LINES=a\nADD http://x /y", "SPACED= a  b ")
    return ImageDetails(f"sha256:{ID}", variables, (), {}, platform="linux/amd64")


def written(text: str, target: str = "") -> list[str]:
    return [step.line for step in canonical(text, ARGUMENTS, target, facts, CONTEXT)]


@for_each(
    "text, lines",
    [
        ("RUN a  b", ['RUN ["/bin/sh","-c","a  b"]']),
        ("RUN a \\", ['RUN ["/bin/sh","-c","a"]']),
        ("RUN a\\ \\ \n b\\\\c <x", ['RUN ["/bin/sh","-c","a\\\\  b\\\\\\\\c \\u003cx"]']),
        ("RUN # syntax=x", ['RUN ["/bin/sh","-c","# syntax=x"]']),
        ('SHELL ["s"]\nRUN x\nCMD y', ['SHELL ["s"]', 'RUN ["s","x"]', 'CMD ["s","y"]']),
        ("ENV A=$OF_BASE", ["ENV A=yes"]),
        ("ENV A=$SPACED", ['ENV A=\\ a\\ \\ b\\ ""']),
        ("ENV A=a\\\\b\nENV B=\\\\", ['ENV A=a\\\\b""', 'ENV B=""']),
        ('ENV A=""', ['ENV A=""']),
        ("WORKDIR -x", ['WORKDIR \\-x""']),
        ("ENV X=--y\nUSER $X", ["ENV X=" + '\\-\\-y""', 'USER \\-\\-y""']),
        ("COPY a d /x/", ['COPY ["./a","./d","/x/"]']),
        ("COPY --from=Other /a b", [f'COPY --from={ID} ["/a","b"]']),
        ("ADD a d /x/", ['ADD ["./a","/x/"]', 'COPY ["./d","/x/"]']),
        ("ADD *.tar d/* /x/", ['ADD ["./b.tar","/x/"]', 'ADD ["./d/c.tar","/x/"]']),
        ("ADD /./d/../a /x", ['ADD ["./a","/x"]']),
        ("ADD http:/x /x", ['ADD ["./http:/x","/x"]']),
        ("ADD . /x", ['COPY [".","/x"]']),
        ("ARG GIVEN=1\nLABEL a=$GIVEN", ["ARG GIVEN=9", "LABEL a=9"]),
    ],
)
def test_each_instruction_is_written_in_one_form(text: str, lines: list[str]) -> None:
    assert written(f"FROM x\n{text}") == [f"FROM {ID} AS stage0", *lines]


@for_each(
    "text",
    [
        "ADD $LINES /x",
        "ENV A=$LINES",
        "LABEL a=$LINES",
        "USER $LINES",
        "COPY $LINES /x",
        "VOLUME $LINES",
        "EXPOSE $LINES",
        "STOPSIGNAL $LINES",
        "ARG A=$LINES",
        "HEALTHCHECK CMD a\vb",
        "MAINTAINER a\vb",
        "ADD link /x",
        "ADD odd* /x",
        "ADD [a] /x",
        "ADD missing /x",
        "ADD /../a /x",
        "ADD git@a:b /x",
        "ADD a a /x",
        "ADD a",
        "ADD <<EOF /x",
        "COPY <<EOF /x",
        "COPY --from=stage0 a /x\nFROM x AS x\nCOPY --from=x a /x",
        "COPY --from=0 a /x",
        "FROM x\nCOPY --from= a /x",
        "FROM x\nCOPY --from=1 a /x",
        "COPY --from=$GIVEN a /x",
        "COPY --link a /x",
        "COPY --chown=a;b a /x",
        "RUN --network=host x",
        "RUN --security=insecure x",
        "RUN",
        "RUN []",
        'RUN ["\\ud800"]',
        "RUN [1]",
        "SHELL x",
        "SHELL []",
        "HEALTHCHECK",
        "HEALTHCHECK NONE x",
        "HEALTHCHECK x y",
        "HEALTHCHECK CMD x\\\\",
        "HEALTHCHECK --interval=$A CMD x",
        "ENV",
        "ENV A",
        "ENV A=1 B",
        "ENV =1",
        "ENV A=${B-1}",
        "ENV A=${B%1}",
        "ENV A=$1",
        "ENV A=$é",
        "ENV A='",
        'ENV A="',
        "ENV A=${B",
        "ENV A=${}",
        "ENV A=${B:?no}",
        "ARG 1=2",
        "LABEL 'a b'=c",
        "EXPOSE a;b",
        "VOLUME []",
        "WORKDIR",
        "WORKDIR $NONE",
        "ONBUILD RUN x",
        "UNKNOWN x",
        "ſHELL x",
        "FROM x AS 1",
        "FROM x y",
        "FROM x AS y\nFROM x AS Y",
        "FROM $NONE",
        "FROM --platform=a/b x",
        "FROM --platform= x",
        "ENV A=" + "${B:-" * 2_000,
        f"RUN {'x' * 70_000}",
        "RUN " + "[" * 5_000,
    ],
)
def test_what_has_no_such_form_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError):
        written(f"FROM x\n{text}\n")


def test_only_the_stages_up_to_the_target_are_written() -> None:
    text = "FROM a AS one\nRUN x\nFROM one AS Two\nRUN y\nFROM two\nUNKNOWN"
    assert written(text, "two")[-2:] == ["FROM stage0 AS stage1", 'RUN ["/bin/sh","-c","y"]']
    with pytest.raises(DockerfileError, match="no stage three"):
        written("FROM a AS one", "three")


@for_each("text", ["", "FROM", "RUN x", "ARG A", "# FROM a"])
def test_a_dockerfile_without_a_beginning_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError):
        written(text)


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=20))
def test_a_word_is_read_back_as_the_same_text(text: str) -> None:
    try:
        one = word(text)
    except ValueError:
        assert {*text} & {*"\0\n\v\f\r"}
        return
    assert quoted_words(f"A={one} B", "\\") == [f"A={one}", "B"] and not one.endswith("\\")
    if "\ufeff" not in text:
        assert expand(Instruction("ENV", one, one), one, "\\", lambda name: "value") == text


@given(st.lists(st.text(max_size=20), max_size=4))
def test_an_array_is_one_line_of_plain_characters_that_ends_with_it(elements: list[str]) -> None:
    assert (
        array(elements).isprintable()
        and array(elements).isascii()
        and array(elements).endswith("]")
    )
    assert json.loads(array(elements)) == elements


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with small_image() as tag:
        yield tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def raw(engine: Engine, image: RepositoryImage) -> str:
    """Build from the repository's own text, as `docker build` does."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in FILES.items():
            if not name.endswith(".out"):
                add(tar, image.root, name, data)
        add(tar, image.root, ".codeagent-dockerfile", image.text.encode())
    packed.seek(0)
    tag = f"{IMAGES}:repository-raw-{os.getpid()}"
    engine.build(
        packed,
        ".codeagent-dockerfile",
        BuildOptions(tag, image.target, image.arguments),
        lambda line: None,
    )
    return tag


def add(tar: tarfile.TarFile, root: Path, name: str, data: bytes) -> None:
    for above in [*Path(name).parents][-2::-1]:
        entry = tarfile.TarInfo(str(above))
        entry.type, entry.mode = tarfile.DIRTYPE, (root / above).stat().st_mode & 0o777
        tar.addfile(entry)
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = (root / name).stat().st_mode & 0o777 if (root / name).exists() else 0o644
    tar.addfile(entry, io.BytesIO(data))


def made(engine: Engine, tag: str) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """The configuration and the files of an image."""
    config: dict[str, Any] = engine.call("GET", f"/images/{tag}/json")["Config"]
    config["Labels"] = {
        name: value for name, value in (config["Labels"] or {}).items() if "codeagent" not in name
    }
    author = engine.call("GET", f"/images/{tag}/json")["Author"]
    container = engine.call_library(lambda api: api.create_container(tag, ["x"]))["Id"]
    try:
        packed = io.BytesIO(b"".join(engine.call_library(lambda api: api.export(container))))
    finally:
        engine.remove(container)
    files = {}
    with tarfile.open(fileobj=packed) as tar:
        for entry in tar:
            data = (
                file.read()
                if entry.isreg() and (file := tar.extractfile(entry)) is not None
                else b""
            )
            files[entry.name] = (
                entry.type,
                entry.mode,
                entry.uid,
                entry.gid,
                entry.linkname,
                sha256(data).hexdigest(),
            )
    files = {
        name: facts for name, facts in files.items() if not name.endswith(".codeagent-dockerfile")
    }
    return config | {"Image": "", "Author": author}, files


@pytest.mark.docker
@pytest.mark.timeout(600)
@pytest.mark.soak(tried=len(ORDINARY))
@for_each("text", part(ORDINARY, 12))
def test_an_ordinary_dockerfile_becomes_the_image_that_the_engine_makes_of_it_itself(
    folder: Path, base: str, text: str
) -> None:
    arguments = {"GIVEN": "given value"}
    image = RepositoryImage(
        folder,
        "Dockerfile",
        dockerfile="Dockerfile",
        text=text.replace("BASE", base),
        ignore=FILES[".dockerignore"].decode(),
        arguments=arguments,
    )
    with local_engine(os.environ.get("DOCKER_HOST")) as engine:
        build(
            engine, image, BuildLimits(network=False, memory_bytes=0), lambda line: None, again=True
        )
        config, files = made(engine, tag_of(image))
        raw_config, raw_files = made(engine, raw(engine, image))
    assert config == raw_config
    assert {
        name: files.get(name)
        for name in {*files, *raw_files}
        if files.get(name) != raw_files.get(name)
    } == {}
