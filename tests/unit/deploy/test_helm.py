"""deploy/helm: the chart, from which deploy/kubernetes is made."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.kubernetes import CHART, FOLDER, HELM, manifests, rendered
from tests.support.documented_metrics import documented_metrics
from tests.unit.deploy.cluster import VERSIONS, Document, named, refusal_of
from tests.unit.deploy.described import settings_of

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
VALUES = CHART / "values.yaml"
EVERYTHING = {
    "admin": {"enabled": True},
    "certificates": {"certManager": {"enabled": True}},
    "metrics": {"podMonitor": {"enabled": True}},
    "networkPolicies": {"mail": {"enabled": True}, "models": {"enabled": True}, "otlp": {"enabled": True}},
}
# A value that Helm replaces as a whole: a list, or a table whose names are not the chart's.
WHOLE = {"settings.objects", "podSecurityContext", "containerSecurityContext", "worker.autoscaling.behavior"}

# Where nothing may be skipped, as under CI, a missing Helm fails.
pytestmark = pytest.mark.skipif(not HELM.exists(), reason="needs Helm: make .venv/bin/helm")


def objects(*arguments: str | Path, name: str = "workflow-api") -> list[Document]:
    return [document for document in yaml.safe_load_all(rendered(*arguments, name=name)) if document]


def with_values(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(part for name, value in values.items() for part in ("--set-json", f"{name}={json.dumps(value)}"))


def of_kind(kind: str, documents: list[Document]) -> dict[str, Document]:
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


@pytest.mark.parametrize("example", [None, *EXAMPLES], ids=lambda file: file.stem if file else "defaults")
def test_every_object_fits_its_schema_and_every_setting_exists(example: Path | None, tmp_path: Path) -> None:
    values = ("--values", example) if example else ()
    subprocess.run([HELM, "lint", "--strict", CHART, *values], check=True, capture_output=True)
    documents = objects(*values, "--namespace", "workflows", name="prod")
    refusals = {(named(each), version): refusal_of(each, version) for each in documents for version in VERSIONS}
    assert {key: reason for key, reason in refusals.items() if reason} == {}
    assert len({named(document) for document in documents}) == len(documents)
    settings = tmp_path / "settings.toml"
    (config,) = of_kind("ConfigMap", documents).values()
    settings.write_text(config["data"]["settings.toml"])
    for deployment in of_kind("Deployment", documents).values():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        read = settings_of(settings, {each["name"]: each["value"] for each in container["env"]})
        assert str(read.edge.backend) == "prod-workflow-api-backend:9090"
        assert read.runtime.engine == "dbos"


def test_the_plain_manifests_are_those_of_the_chart() -> None:
    names = ("admin", "backend", "cert-manager", "console", "edge", "network-policies", "worker")
    made = manifests()
    assert made.keys() == {"settings.toml", *(f"{name}.yaml" for name in names)}
    assert [name for name, text in made.items() if (FOLDER / name).read_text() != text] == []


def test_kustomize_gives_an_overlay_its_image_and_settings(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "base")
    (tmp_path / "settings.toml").write_text('deployment_id = "plant-7"\n')
    overlay = {
        "resources": ["base"],
        "images": [{"name": "workflow-api", "newName": "registry.example.org/workflow-api", "newTag": "2"}],
        "configMapGenerator": [{"name": "workflow-api-settings", "behavior": "replace", "files": ["settings.toml"]}],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(overlay))
    built = subprocess.run([HELM.with_name("kubectl"), "kustomize", tmp_path], capture_output=True, check=True).stdout
    documents = list(yaml.safe_load_all(built))
    ((settings, config),) = of_kind("ConfigMap", documents).items()
    assert config["data"] == {"settings.toml": 'deployment_id = "plant-7"\n'}
    pods = [each["spec"]["template"]["spec"] for each in of_kind("Deployment", documents).values()]
    assert {pod["containers"][0]["image"] for pod in pods} == {"registry.example.org/workflow-api:2"}
    assert {pod["volumes"][0]["configMap"]["name"] for pod in pods} == {settings}


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        place = f"{path}{name}"
        if isinstance(value, dict) and value and not place.endswith("resources") and place not in WHOLE:
            yield from leaves(value, f"{place}.")
        else:
            yield place, value


def other(place: str, value: Any) -> Any:
    """Returns another value that the schema allows."""
    special = {
        "image.digest": f"sha256:{'0' * 64}",
        "image.pullPolicy": "Always",
        "settings.runtime.sandbox": "landlock",
        "certificates.certManager.issuer": {"name": "internal", "kind": "ClusterIssuer"},
        "metrics.interval": "77s",
        "certificates.certManager.duration": "77h",
        "secrets.more": [{"folder": "models", "name": "keys"}],
        "worker.keda.prometheus": "http://elsewhere:9090",
        "edge.service.type": "NodePort",
        "console.service.type": "NodePort",
    }
    if place in special:
        return special[place]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return "77Gi" if place.endswith("Size") else "77m" if place.endswith(".cpu") else "other"
    if place.endswith("resources"):
        return {"requests": {"cpu": "7"}, "limits": {"memory": "7Gi"}}
    if place.startswith("networkPolicies."):
        return [{"podSelector": {"matchLabels": {"app": "other"}}}]
    return (
        [{"name": "OTHER", "value": "7"}]
        if place.endswith(".env")
        else ([{"name": "other"}] if isinstance(value, list) else {"other": "7"})
    )


def test_every_value_changes_what_is_rendered() -> None:
    """In one of the ways of use of the chart."""
    keda = {**EVERYTHING, "worker": {"keda": {"enabled": True}}}
    service = {**EVERYTHING, "metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": False}}}
    fixed = {f"{part}.autoscaling.enabled": False for part in ("edge", "console", "backend", "worker")}
    # The defaults are first, where a monitor may be enabled.
    uses = [with_values(use) for use in ({}, EVERYTHING, keda, service)]
    uses.append((*uses[1], *with_values(fixed)))
    before = [rendered(*use) for use in uses]

    def changes(leaf: tuple[str, Any]) -> bool:
        now = with_values({leaf[0]: other(*leaf)})
        return any(rendered(*use, *now) != text for use, text in zip(uses, before, strict=True))

    known = list(leaves(yaml.safe_load(VALUES.read_text())))
    with ThreadPoolExecutor(2) as pool:
        dead = [leaf[0] for leaf, changed in zip(known, pool.map(changes, known), strict=True) if not changed]
    assert dead == []


def test_every_value_has_a_comment_and_a_place_in_the_schema() -> None:
    lines = VALUES.read_text().splitlines()
    schema = json.loads((CHART / "values.schema.json").read_text())
    named_values = [
        (number, found) for number, line in enumerate(lines) if (found := re.match(r"( *)([\w.]+):( .+)?$", line))
    ]
    without = [
        lines[number]
        for number, found in named_values
        if found[3]
        and found[2] not in {"requests", "limits"}
        and not found[1][4:]
        and not lines[number - 1].lstrip().startswith("#")
    ]
    assert without == []

    def properties(node: Any) -> Any:
        reference = node.get("$ref")
        return properties(schema["definitions"][reference.rpartition("/")[2]]) if reference else node

    for place, _ in leaves(yaml.safe_load(VALUES.read_text())):
        node = schema
        for name in place.split("."):
            node = properties(node)
            if "properties" not in node:
                break
            assert name in node["properties"] or node.get("additionalProperties") is not False, place
            node = node["properties"].get(name, {})


@pytest.mark.parametrize(
    "values",
    [
        {"worker.replica": 1},
        {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
        {"settings.runtime.sandbox": "namespaces"},
        {"secrets.more": [{"folder": "database", "name": "other"}]},
        {"networkPolicies.edgeClients": [{"namespace": "ingress"}]},
        {"secrets.database.url": "postgresql://user:password@host/name"},
    ],
)
def test_mistaken_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(*with_values(values))
    assert next(iter(values)).rpartition(".")[2] in refused.value.stderr


def test_every_name_is_the_releases() -> None:
    text = rendered(*with_values({**EVERYTHING, "worker": {"keda": {"enabled": True}}, "fullnameOverride": "plant-7"}))
    documents = [document for document in yaml.safe_load_all(text) if document]
    assert all(re.match(r"plant-7(-|$)", document["metadata"]["name"]) for document in documents)
    assert re.findall(r"^[^#]*workflow-api-[a-z]+", text.replace("/etc/workflow-api", ""), re.MULTILINE) == []


def test_the_chart_holds_no_secrets() -> None:
    for example in EXAMPLES:
        assert of_kind("Secret", objects("--values", example)) == {}


def test_workers_scale_by_documented_metrics_of_the_queue_in_place_of_the_processor() -> None:
    documents = objects("--values", CHART / "examples" / "keda.yaml", "--namespace", "workflows", name="prod")
    assert "prod-workflow-api-worker" not in of_kind("HorizontalPodAutoscaler", documents)
    (scaled,) = of_kind("ScaledObject", documents).values()
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    metrics = {metric for query in queries for metric in re.findall(r"workflow_api_\w+", query)}
    assert metrics <= documented_metrics(by_name=False).keys()
    assert metrics >= {"workflow_api_segments_queued", "workflow_api_oldest_queued_segment_seconds"}
    # A worker whose steps all wait for models is in use.
    assert "workflow_api_step_slots_in_use" in metrics
    (monitor,) = of_kind("PodMonitor", documents).values()
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind("Deployment", documents).values()]
    jobs = {labels[monitor["spec"]["jobLabel"]] for labels in pods}
    assert {(job, "workflows") for job in jobs} == {
        found for query in queries for found in re.findall(r'job="([^"]+)",namespace="([^"]+)"', query)
    }


def test_workers_are_asked_for_little_less_memory_than_they_may_use() -> None:
    for example in EXAMPLES:
        worker = of_kind("Deployment", objects("--values", example))["workflow-api-worker"]
        resources = worker["spec"]["template"]["spec"]["containers"][0]["resources"]
        requested, limit = (int(resources[each]["memory"].removesuffix("Gi")) for each in ("requests", "limits"))
        assert 0.85 * limit <= requested <= limit


def test_no_listed_client_is_nobody_rather_than_everybody() -> None:
    clients = ("edgeClients", "consoleClients", "monitoring")
    policies = of_kind("NetworkPolicy", objects(*with_values({f"networkPolicies.{each}": [] for each in clients})))
    for part in ("edge", "console", "worker"):
        assert not policies[f"workflow-api-{part}"]["spec"]["ingress"]


def test_probes_start_no_process() -> None:
    for deployment in of_kind("Deployment", objects()).values():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        probes = [probe for name, probe in container.items() if name.endswith("Probe")]
        assert probes
        assert all("exec" not in probe for probe in probes)
        assert all(probe.get("httpGet", {}).get("path") != "/metrics" for probe in probes), "it asks the database"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, 'Pod Security standard "restricted", workers use\n  Landlock'),
        ({"settings.runtime.sandbox": "none"}, "steps are NOT isolated"),
        ({"worker.keda.enabled": True}, "none is enabled"),
        ({"secrets.redis.name": "other"}, "  other with url"),
    ],
)
def test_the_notes_say_what_to_know(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    """Without a cluster Helm renders notes only as a part of an object."""
    chart = shutil.copytree(CHART, tmp_path / "chart")
    notes = chart / "templates" / "NOTES.txt"
    template = '{{ define "notes" }}%s{{ end }}kind: Notes\ntext: |{{ include "notes" . | nindent 2 }}\n'
    notes.with_name("notes.yaml").write_text(template % notes.read_text())
    command: list[str | Path] = [
        HELM,
        "template",
        "prod",
        chart,
        "--show-only",
        "templates/notes.yaml",
        *with_values(values),
    ]
    assert said in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_backends_reach_a_mail_server_and_models_where_the_values_say_so() -> None:
    def ports(values: Mapping[str, Any], part: str) -> set[int]:
        policies = {named(document): document for document in objects(*with_values(values))}
        egress = policies[f"NetworkPolicy-workflow-api-{part}"]["spec"]["egress"]
        return {port["port"] for rule in egress for port in rule["ports"]}

    opened = {"networkPolicies.mail.enabled": True, "networkPolicies.models": {"enabled": True, "to": [], "port": 8443}}
    assert ports(opened, "backend") - ports({}, "backend") == {587, 8443}
    assert ports(opened, "worker") - ports({}, "worker") == {8443}
    assert ports(opened, "edge") == ports({}, "edge")
