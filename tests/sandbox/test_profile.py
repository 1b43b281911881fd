"""The container's profile as data."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeagent.sandbox import launch
from codeagent.sandbox.profile import (
    ENVIRONMENT,
    HOME,
    KEEPER,
    ContainerSpec,
    create_arguments,
    profile_hash,
    seccomp_filter,
)
from codeagent.sandbox.spec import Bind, SandboxLimits, View

SPEC = ContainerSpec(
    "image",
    "/w",
    1000,
    1001,
    (Bind("/a", "/a"), Bind("/w", "/w", False)),
    "/bin",
    SandboxLimits(2**30, 2**20, 64, 1.5),
)
ARGUMENTS = create_arguments(SPEC, {"codeagent": "1"})
HOST: dict[str, Any] = ARGUMENTS["HostConfig"]


def rules(name: str) -> list[dict[str, Any]]:
    return [rule for rule in json.loads(seccomp_filter())["syscalls"] if name in rule["names"]]


def test_every_wall_of_the_profile_stands() -> None:
    assert HOST["CapDrop"] == ["ALL"]
    assert HOST["NetworkMode"] == "none"
    assert HOST["ReadonlyRootfs"] is True
    assert HOST["Privileged"] is False
    assert HOST["IpcMode"] == "private"
    assert HOST["LogConfig"]["Type"] == "none"
    assert HOST["SecurityOpt"][0] == "no-new-privileges"
    assert HOST["SecurityOpt"][1].startswith('seccomp={"defaultAction":"SCMP_ACT_ERRNO"')


def test_the_filter_admits_32_bit_programs_and_no_x32_calls() -> None:
    machines = {
        entry["architecture"]: entry["subArchitectures"]
        for entry in json.loads(seccomp_filter())["archMap"]
    }
    assert machines["SCMP_ARCH_X86_64"] == ["SCMP_ARCH_X86"]
    assert machines["SCMP_ARCH_AARCH64"] == ["SCMP_ARCH_ARM"]


def test_python_writes_no_bytecode_beside_the_code_that_it_runs() -> None:
    assert ENVIRONMENT["PYTHONDONTWRITEBYTECODE"] == "1"


def test_nothing_that_would_open_it_is_there() -> None:
    opening = {
        "Devices",
        "PidMode",
        "UTSMode",
        "UsernsMode",
        "CapAdd",
        "Binds",
        "Links",
        "VolumesFrom",
        "GroupAdd",
    }
    assert opening & HOST.keys() == set()


def test_the_keeper_is_somebody_else_and_lives_as_long_as_the_agent() -> None:
    assert ARGUMENTS["User"] == f"{KEEPER}:{KEEPER}"
    assert (ARGUMENTS["OpenStdin"], ARGUMENTS["StdinOnce"], HOST["AutoRemove"], HOST["Init"]) == (
        True,
    ) * 4


def test_limits_are_set_and_swap_adds_nothing() -> None:
    assert (HOST["Memory"], HOST["MemorySwap"], HOST["PidsLimit"], HOST["NanoCpus"]) == (
        2**30,
        2**30,
        64,
        1_500_000_000,
    )
    assert {limit["Name"]: limit["Hard"] for limit in HOST["Ulimits"]} == {
        "core": 0,
        "nofile": 4096,
    }


def test_temporary_places_have_a_size_and_no_set_uid() -> None:
    scratch = {
        mount["Target"]: mount["VolumeOptions"]["DriverConfig"]["Options"]
        for mount in HOST["Mounts"]
        if mount["Type"] == "volume"
    }
    assert scratch.keys() == {"/tmp", HOME}
    assert {each["type"] for each in scratch.values()} == {"tmpfs"}
    assert all(each["o"].startswith("nosuid,nodev,size=1048576,") for each in scratch.values())
    assert scratch[HOME]["o"].endswith("mode=0700,uid=1000,gid=1001")


def test_a_view_shares_scratch_and_loopback_and_has_a_layer_in_place_of_the_workspace() -> None:
    spec = replace(
        SPEC, view=View("abc", ("tmp-volume", "home-volume")), layer=("/w", "/state/layer")
    )
    arguments = create_arguments(spec, {"codeagent": "1"})
    host = arguments["HostConfig"]
    assert host["NetworkMode"] == "container:abc" and not arguments["NetworkDisabled"]
    volumes = {mount["Target"]: mount for mount in host["Mounts"] if mount["Type"] == "volume"}
    assert (volumes["/tmp"]["Source"], volumes[HOME]["Source"]) == ("tmp-volume", "home-volume")
    assert volumes["/w"]["VolumeOptions"]["DriverConfig"]["Options"]["o"] == (
        "lowerdir=/w,upperdir=/state/layer/upper,workdir=/state/layer/work,userxattr,volatile"
    )


def test_mounts_are_read_only_unless_said() -> None:
    binds = [mount for mount in HOST["Mounts"] if mount["Type"] == "bind"]
    assert [(mount["Source"], mount["ReadOnly"]) for mount in binds] == [
        ("/a", True),
        ("/w", False),
    ]
    assert {mount["BindOptions"]["Propagation"] for mount in binds} == {"rprivate"}


def test_the_environment_is_ours_alone() -> None:
    names = {entry.partition("=")[0] for entry in ARGUMENTS["Env"]}
    assert {"PATH", "HOME", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT"} <= names
    names -= {"GIT_CONFIG_KEY_0"}
    assert not any("KEY" in name or "TOKEN" in name or "PROXY" in name.upper() for name in names)


def test_git_takes_no_planted_folder_for_a_repository() -> None:
    assert {
        "GIT_CONFIG_COUNT=1",
        "GIT_CONFIG_KEY_0=safe.bareRepository",
        "GIT_CONFIG_VALUE_0=explicit",
    } <= set(ARGUMENTS["Env"])


def test_the_hash_changes_with_every_part_of_the_profile() -> None:
    others = [
        replace(SPEC, limits=replace(SPEC.limits, pids=65)),
        replace(SPEC, binds=()),
        replace(SPEC, image="x"),
        replace(SPEC, uid=0),
    ]
    assert len({profile_hash(spec) for spec in [SPEC, *others]}) == 5


def test_no_rule_of_the_filter_lets_a_set_uid_bit_through() -> None:
    for name, index in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("creat", 1)):
        (rule,) = rules(name)
        (condition,) = rule["args"]
        assert (condition["index"], condition["value"], condition["valueTwo"]) == (index, 0o6000, 0)
    assert all(
        rule["args"] for name in ("open", "openat", "mknod", "mknodat") for rule in rules(name)
    )


def test_what_hides_its_arguments_is_said_to_be_missing() -> None:
    for name in ("openat2", "socketcall", "io_uring_setup"):
        (rule,) = rules(name)
        assert (rule["action"], rule["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)


def test_only_four_socket_families_are_left() -> None:
    assert sorted(rule["args"][0]["valueTwo"] for rule in rules("socket")) == [1, 2, 10, 16]


def test_the_small_files_of_containers_may_be_made_by_two_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, others = launch.create_file, [1, 2]

    def late(name: Path, mode: int) -> int:
        if others:
            others.pop()
            launch.state_files(tmp_path, 1000, 1000)
        return create(name, mode)

    monkeypatch.setattr(launch, "create_file", late)
    empty, passwd, _ = launch.state_files(tmp_path, 1000, 1000)
    assert (empty.read_text(), passwd.stat().st_mode & 0o777) == ("", 0o444)
    assert len(list((tmp_path / "sandbox").iterdir())) == 3


def test_podman_gets_the_same_walls_in_its_own_words() -> None:
    """The filter as a file, a home folder without owner, which its tmpfs cannot have, and a limit
    for its default."""
    spec = replace(SPEC, seccomp_file="/state/seccomp.json", user_namespace="keep-id")
    host = create_arguments(spec, {"codeagent": "1"})["HostConfig"]
    differing = {name for name in host if host[name] != HOST.get(name)}
    assert differing == {"Mounts", "SecurityOpt", "Tmpfs", "Ulimits", "UsernsMode"}
    assert host["SecurityOpt"] == ["no-new-privileges", "seccomp=/state/seccomp.json"]
    scratch = "rw,exec,nosuid,nodev,size=1048576,mode=1777"
    assert host["Tmpfs"] == {"/tmp": scratch, HOME: scratch}
    assert {mount["Type"] for mount in host["Mounts"]} == {"bind"}
    assert [limit for limit in host["Ulimits"] if limit not in HOST["Ulimits"]] == [
        {"Name": "nproc", "Soft": 4096, "Hard": 4096}
    ]
