"""deploy/kubernetes: the parts in a cluster."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.unit.deploy.cluster import NAME, VERSIONS, Document, named, refusal_of
from tests.unit.deploy.described import DEPLOY, drains, settings_of, understood

FOLDER = DEPLOY / "kubernetes"
SETTINGS = FOLDER / "settings.toml"
KUSTOMIZATION = "kustomization.yaml"


def documents() -> Iterator[tuple[str, Document]]:
    for path in sorted(set(FOLDER.glob("*.yaml")) - {FOLDER / KUSTOMIZATION}):
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


DOCUMENTS = [document for _, document in documents()]


def of_kind(kind: str) -> dict[str, Document]:
    return {document["metadata"]["name"]: document for document in DOCUMENTS if document["kind"] == kind}


DEPLOYMENTS = of_kind("Deployment")
PODS = {name: document["spec"]["template"] for name, document in DEPLOYMENTS.items()} | of_kind("Pod")
PARTS = {name: template["spec"]["containers"][0] for name, template in PODS.items() if name in DEPLOYMENTS}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_fits_its_schema(version: str) -> None:
    assert {named(document): reason for document in DOCUMENTS if (reason := refusal_of(document, version))} == {}


def test_no_manifest_has_a_namespace_or_yaml_anchors() -> None:
    assert all("namespace" not in document.get("metadata", {}) for document in DOCUMENTS)
    for path in FOLDER.glob("*.yaml"):
        assert not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(path.read_text())), path


def test_the_base_lists_every_manifest() -> None:
    base = yaml.safe_load((FOLDER / KUSTOMIZATION).read_text())
    assert {FOLDER / name for name in base["resources"]} == {
        FOLDER / f"{name}.yaml" for name in ("edge", "console", "backend", "worker", "network-policies")
    }
    (settings,) = base["configMapGenerator"]
    assert settings["files"] == [SETTINGS.name]
    (image,) = base["images"]
    assert all(part["image"] == f"{image['name']}:{image['newTag']}" for part in PARTS.values())


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_has_no_rights_that_it_does_not_need(pod: Document) -> None:
    spec = pod["spec"]
    security = spec["securityContext"]
    assert security["runAsNonRoot"]
    assert security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    # Variables of services would begin as our own do, and be no settings.
    assert spec["enableServiceLinks"] is False
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert mounts.keys() == volumes.keys()
    assert all("emptyDir" in volumes[name] or mount["readOnly"] for name, mount in mounts.items())


@pytest.mark.parametrize("name", PARTS)
def test_a_part_uses_existing_commands_and_settings(name: str) -> None:
    part, spec = PARTS[name], PODS[name]["spec"]
    command = understood(part["args"])
    settings = settings_of(SETTINGS, {variable["name"]: variable["value"] for variable in part["env"]})
    pause = part.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    assert pause[0] == "sleep"
    assert spec["terminationGracePeriodSeconds"] > drains(settings, command) + int(pause[1])


@pytest.mark.parametrize("name", PODS)
def test_files_that_settings_name_are_mounted(name: str) -> None:
    spec = PODS[name]["spec"]
    (container,) = spec["containers"]
    settings = settings_of(SETTINGS, {variable["name"]: variable["value"] for variable in container["env"]})
    read: Any = {
        "workflow-api-edge": [settings.edge.backend_tls.key, settings.edge.redis_url],
        "workflow-api-console": [settings.console.backend_tls.key],
        "workflow-api-backend": [settings.backend.tls.key, settings.backend.database],
        "workflow-api-worker": [settings.backend.database],
        "workflow-api-admin": [settings.admin.backend_tls.key],
    }[name]
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    folders = {str(file).removeprefix("file:").rpartition("/")[0] for file in read}
    assert folders <= mounted.keys()
    stored = {path for path in mounted if path.startswith("/run/secrets/")} - {"/run/secrets/objects"}
    assert folders == stored, "what is secret is mounted only where it is read"


@pytest.mark.parametrize("name", PARTS)
def test_metrics_are_served_at_the_port_that_monitoring_may_reach(name: str) -> None:
    listen = settings_of(SETTINGS, {each["name"]: each["value"] for each in PARTS[name]["env"]}).metrics.listen
    assert listen is not None
    ports = {port["name"]: port["containerPort"] for port in PARTS[name]["ports"]}
    assert ports["metrics"] == listen.port
    reached = [rule["ports"][0]["port"] for rule in of_kind("NetworkPolicy")[name]["spec"]["ingress"]]
    assert sorted(ports) == sorted(reached)


def test_every_secret_is_created_or_documented() -> None:
    mounted = {
        volume["secret"]["secretName"]
        for pod in PODS.values()
        for volume in pod["spec"]["volumes"]
        if "secret" in volume
    }
    certificates = {certificate["spec"]["secretName"] for certificate in of_kind("Certificate").values()}
    assert mounted == (certificates - {"workflow-api-authority"}) | of_kind("Secret").keys()
    assert all(not any(secret["stringData"].values()) for secret in of_kind("Secret").values())


def test_certificates_have_the_names_that_settings_expect() -> None:
    settings = settings_of(SETTINGS, {})
    borne = {name: certificate["spec"].get("dnsNames") for name, certificate in of_kind("Certificate").items()}
    callers = {f"dns:{names[0]}" for name, names in borne.items() if names and name != "workflow-api-backend"}
    assert callers == settings.identities.keys()
    assert settings.console.backend == settings.edge.backend
    assert borne["workflow-api-backend"] == [str(settings.edge.backend).partition(":")[0]]
    assert borne["workflow-api-backend"][0] in of_kind("Service")


@pytest.mark.parametrize("name", PARTS)
def test_every_part_survives_disruptions(name: str) -> None:
    labels = PODS[name]["metadata"]["labels"]
    assert DEPLOYMENTS[name]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert "replicas" not in DEPLOYMENTS[name]["spec"], "the autoscaler says it"
    budget = of_kind("PodDisruptionBudget")[name]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": {NAME: name}}}
    scaled = of_kind("HorizontalPodAutoscaler")[name]["spec"]
    assert scaled["scaleTargetRef"]["name"] == name
    assert 2 <= scaled["minReplicas"] < scaled["maxReplicas"]
    if name != "workflow-api-worker":
        service = of_kind("Service")[name]["spec"]
        assert service["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["ports"]} <= {port["name"] for port in PARTS[name]["ports"]}
        assert PARTS[name].keys() >= {"startupProbe", "readinessProbe", "livenessProbe"}


def test_network_policies_allow_listed_traffic_only() -> None:
    policies = of_kind("NetworkPolicy")
    everything = policies.pop("workflow-api")["spec"]
    assert everything["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in everything
    for name, pod in PODS.items():
        labels = pod["metadata"]["labels"]
        assert everything["podSelector"]["matchLabels"].items() <= labels.items()
        assert policies[name]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    collector = {
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "ports": [{"protocol": "TCP", "port": 4318}],
    }
    traced = {name for name, policy in policies.items() if collector in policy["spec"]["egress"]}
    assert traced == {f"workflow-api-{part}" for part in ("edge", "console", "backend", "worker")}
    allowed = {
        (name, peer["podSelector"]["matchLabels"][NAME], direction)
        for name, policy in policies.items()
        for direction, key in (("ingress", "from"), ("egress", "to"))
        for rule in policy["spec"].get(direction, [])
        for peer in rule.get(key, [])
        if "podSelector" in peer
    }
    assert allowed == {
        (one, other, direction)
        for caller in ("workflow-api-edge", "workflow-api-console", "workflow-api-admin")
        for one, other, direction in (
            (caller, "workflow-api-backend", "egress"),
            ("workflow-api-backend", caller, "ingress"),
        )
    }
