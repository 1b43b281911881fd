"""What lock files name, where it would be fetched from, and what pip is given."""

import json
from pathlib import Path

import pytest

from codeagent.core.errors import ConfigError
from codeagent.sandbox.lock_files import Lock, read_locks, requirements
from tests.table import for_each

A, B = "a" * 64, "b" * 64
LINUX = {"sys_platform": "linux", "python_version": "3.11", "python_full_version": "3.11.2"}
UV = (
    f"""
[[package]]
name = "project"
source = {{ virtual = "." }}
dependencies = [{{ name = "one", extra = ["more"] }}, {{ name = "windows", marker = "sys_platform == 'win32'" }}]
[package.dev-dependencies]
dev = [{{ name = "two", version = "2", marker = "python_version >= '3.9'" }}, {{ name = "git" }}]

[[package]]
name = "one"
version = "1"
source = {{ registry = "https://pypi.org/simple" }}
sdist = {{ url = "https://files.pythonhosted.org/one.tar.gz", hash = "sha256:{A}" }}
wheels = [{{ url = "https://files.pythonhosted.org/one.whl", hash = "sha256:{B}" }}]
[package.optional-dependencies]
more = [{{ name = "below" }}]
"""
    + "".join(
        f"""
[[package]]
name = "{name}"
version = "{version}"
source = {{ registry = "https://mirror.example/simple" }}
wheels = [{{ url = "https://other.example/{name}.whl", hash = "sha256:{A}" }}]
"""
        for name, version in (("below", "1"), ("two", "1"), ("two", "2"), ("windows", "1"))
    )
    + """
[[package]]
name = "git"
version = "1"
source = { git = "https://x.example/git" }
"""
)


def only(folder: Path, **files: str) -> Lock:
    for name, text in files.items():
        (folder / name).write_text(text)
    [lock] = read_locks(folder)
    return lock


def test_a_uv_lock_gives_what_the_project_needs_here(tmp_path: Path) -> None:
    lock = only(tmp_path, **{"uv.lock": UV})
    assert requirements(lock, LINUX).splitlines() == [
        f"below==1 --hash=sha256:{A}",
        f"one==1 --hash=sha256:{A} --hash=sha256:{B}",
        f"two==2 --hash=sha256:{A}",
    ]
    assert f"windows==1 --hash=sha256:{A}" in requirements(lock, LINUX | {"sys_platform": "win32"})
    assert (lock.count, lock.left_out) == (5, ("git",))
    assert lock.indexes == ("https://pypi.org/simple", "https://mirror.example/simple")
    assert lock.hosts == ("pypi.org", "files.pythonhosted.org", "mirror.example", "other.example")


def test_requirements_are_passed_on_without_any_option_of_the_file(tmp_path: Path) -> None:
    hashes = f"--hash=sha256:{A} \\\n    --hash=sha256:{B}"
    text = f"--index-url https://mirror.example:8443/simple\n# x\none==1 \\\n    {hashes}\n"
    lock = only(tmp_path, **{"requirements.txt": text})
    assert requirements(lock, {}) == f"one==1 --hash=sha256:{A} --hash=sha256:{B}\n"
    assert (lock.indexes, lock.hosts) == (
        ("https://mirror.example:8443/simple",),
        ("mirror.example:8443",),
    )
    assert lock.at("https://own.example/simple").hosts == ("own.example",), (
        "only what the user named"
    )


def test_requirements_without_hashes_are_no_lock(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("one==1\n")
    assert read_locks(tmp_path) == ()


def test_a_lock_of_npm_is_passed_on_without_scripts(tmp_path: Path) -> None:
    packages = {
        "": {},
        "node_modules/x": {"resolved": "https://registry.npmjs.org/x.tgz", "integrity": "sha512-x"},
    }
    manifest = {
        "name": "x",
        "dependencies": {"x": "1"},
        "scripts": {"postinstall": "evil"},
        "bin": {"ls": "evil"},
    }
    files = {
        "package-lock.json": json.dumps({"packages": packages}),
        "package.json": json.dumps(manifest),
    }
    lock = only(tmp_path, **files)
    assert (lock.kind, lock.count, lock.hosts) == ("node", 1, ("registry.npmjs.org",))
    assert "evil" not in lock.manifest and '"dependencies"' in lock.manifest


@for_each(
    "name, text, said",
    [
        (
            "requirements.txt",
            f"one==1 --hash=sha256:{A}\ntwo==2\n",
            "two==2 is not a package pinned",
        ),
        (
            "requirements.txt",
            f"one==1 --hash=sha256:{A}\n--find-links .\n",
            "--find-links . is not a package pinned",
        ),
        (
            "requirements.txt",
            f"one==1 --hash=sha256:{A}\n-r other.txt\n",
            "is not a package pinned",
        ),
        (
            "requirements.txt",
            f"one==1 --global-option=x --hash=sha256:{A}\n",
            "is not a package pinned",
        ),
        (
            "requirements.txt",
            f"x @ https://x.example/x.whl --hash=sha256:{A}\n",
            "is not a package pinned",
        ),
        ("requirements.txt", f"-i https://*/simple\none==1 --hash=sha256:{A}\n", "names no host"),
        (
            "requirements.txt",
            f"-i file:///etc\none==1 --hash=sha256:{A}\n",
            "not the plain address",
        ),
        (
            "requirements.txt",
            f"-i https://me:pw@x.example/\none==1 --hash=sha256:{A}\n",
            "not the plain address",
        ),
        ("uv.lock", "[[package]", "cannot be read"),
        (
            "uv.lock",
            UV.replace('source = { virtual = "." }', 'source = { git = "x" }'),
            "names no project",
        ),
        ("uv.lock", UV.replace(f', hash = "sha256:{A}"', ""), "cannot be read"),
        ("uv.lock", UV.replace('"one"', '"one --index-url"'), "a package has no hash"),
        ("package-lock.json", '{"lockfileVersion": 1, "dependencies": {}}', "npm 7 or later"),
        (
            "package-lock.json",
            '{"packages": {"node_modules/x": {"resolved": "git+ssh://x"}}}',
            "no hash",
        ),
        (
            "package-lock.json",
            '{"packages": {"node_modules/x": {"resolved": "http://x", "integrity": "s"}}}',
            "no hash",
        ),
    ],
)
def test_a_lock_that_cannot_be_used_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, text: str, said: str
) -> None:
    folder = tmp_path_factory.mktemp("repository")
    (folder / name).write_text(text)
    (folder / "package.json").write_text("{}")
    with pytest.raises(ConfigError, match=said):
        read_locks(folder)


def test_a_marker_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    lock = only(tmp_path, **{"uv.lock": UV.replace("sys_platform == 'win32'", "nonsense")})
    with pytest.raises(ConfigError, match="the marker nonsense"):
        requirements(lock, LINUX)
