"""The page about Ray is true: KubeRay accepts its manifest, and Ray has its commands."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/how-to/ray.md").read_text()
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
QUANTITY: Schema = {
    "type": ["integer", "string"],
    "pattern": r"^[0-9]+(\.[0-9]+)?([KMGTPE]i|[numkMGTPE])?$",
}


def fields(*required: str, **known: Schema) -> Schema:
    """An object that has only these fields: what KubeRay does not know is dropped or refused."""
    names = {name.rstrip("_"): schema for name, schema in known.items()}
    return {
        "type": "object",
        "properties": names,
        "required": list(required),
        "additionalProperties": False,
    }


def each(item: Schema) -> Schema:
    return {"type": "array", "items": item}


AMOUNTS: Schema = {"type": "object", "additionalProperties": QUANTITY}
CONTAINER = fields(
    "name",
    name=TEXT,
    image=TEXT,
    command=each(TEXT),
    args=each(TEXT),
    env=each(fields("name", name=TEXT, value=TEXT)),
    envFrom=each(fields(secretRef=fields(name=TEXT))),
    resources=fields(requests=AMOUNTS, limits=AMOUNTS),
    securityContext=fields(privileged=FLAG),
    volumeMounts=each(fields("mountPath", "name", mountPath=TEXT, name=TEXT, readOnly=FLAG)),
)
VOLUME = fields("name", name=TEXT, emptyDir=fields(medium=TEXT, sizeLimit=QUANTITY))
POD = fields(
    spec=fields(
        "containers",
        containers=each(CONTAINER),
        volumes=each(VOLUME),
        restartPolicy=TEXT,
        terminationGracePeriodSeconds=NUMBER,
    )
)
RAY_CLUSTER = fields(
    "spec",
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayCluster"},
    metadata={"type": "object"},
    spec=fields(
        "headGroupSpec",
        rayVersion=TEXT,
        authOptions=fields(mode={"enum": ["disabled", "token"]}),
        enableInTreeAutoscaling=FLAG,
        autoscalerOptions=fields(
            idleTimeoutSeconds=NUMBER,
            upscalingMode={"enum": ["Default", "Aggressive", "Conservative"]},
            version={"enum": ["v1", "v2"]},
        ),
        headGroupSpec=fields("template", rayStartParams=TEXTS, template=POD),
        workerGroupSpecs=each(
            fields(
                "groupName",
                "maxReplicas",
                "minReplicas",
                "template",
                groupName=TEXT,
                replicas=NUMBER,
                minReplicas=NUMBER,
                maxReplicas=NUMBER,
                rayStartParams=TEXTS,
                template=POD,
            )
        ),
    ),
)
"""What the page uses of RayCluster in `helm-chart/kuberay-operator/crds/ray.io_rayclusters.yaml` of
ray-project/kuberay at commit 017710c025a86af5225c0e68cd78fb06e2918296: names, types, values and what
has to be there."""


def manifest() -> Any:
    [text] = re.findall(r"```yaml\n(apiVersion: ray\.io.*?)```", PAGE, re.DOTALL)
    return yaml.safe_load(text)


def test_the_manifest_is_one_that_kuberay_takes() -> None:
    faults = Draft202012Validator(RAY_CLUSTER).iter_errors(manifest())
    assert [f"{fault.json_path}: {fault.message}" for fault in faults] == []


def test_the_schema_refuses_what_kuberay_does_not_know() -> None:
    wrong = manifest()
    [group] = wrong["spec"]["workerGroupSpecs"]
    group["rayStartParams"]["num-cpus"] = 8
    group["template"]["spec"]["container"] = []
    del group["groupName"]
    assert len(list(Draft202012Validator(RAY_CLUSTER).iter_errors(wrong))) == 3


def test_the_manifest_has_what_the_schema_cannot_require() -> None:
    spec = manifest()["spec"]
    [group] = spec["workerGroupSpecs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"ray=={spec['rayVersion']}" in project["optional-dependencies"]["ray"]
    [words] = shlex.split(group["rayStartParams"]["resources"])  # a shell of the pod reads it
    assert json.loads(words) == {"engine": 8}
    # A pod that starts again in place is never taken away by the autoscaler.
    assert group["template"]["spec"]["restartPolicy"] == "Never"
    for pod in (spec["headGroupSpec"]["template"]["spec"], group["template"]["spec"]):
        assert pod["containers"][0]["name"].startswith("ray-")  # KubeRay takes the first for Ray's
        mounted = {
            mount["name"] for each in pod["containers"] for mount in each.get("volumeMounts", ())
        }
        assert mounted == {volume["name"] for volume in pod.get("volumes", ())}


def test_the_commands_of_the_page_are_those_of_ray() -> None:
    scripts = pytest.importorskip("ray.scripts.scripts", reason="Ray is not installed")
    lines = re.findall(r"^ray (.+)$", PAGE, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        command, *given = shlex.split(line)
        known = {name for each in scripts.cli.commands[command].params for name in each.opts}
        assert {word.partition("=")[0] for word in given} <= known
