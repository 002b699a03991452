"""Validates objects of a cluster against Kubernetes's schemas, and custom ones against schemas of the used fields."""

from typing import Any, Final

import jsonschema
import kubernetes_validate

Document = dict[str, Any]

NAME: Final = "app.kubernetes.io/name"
# The oldest that the guide promises, and the newest that there is a schema of.
VERSIONS: Final = ("1.30", "1.37")

_TEXT: Final = {"type": "string", "minLength": 1}
_LABELS: Final = {"type": "object", "minProperties": 1, "additionalProperties": _TEXT}
_TIME: Final = {"type": "string", "pattern": "^[0-9]+[smh]$"}


def _fields(required: dict[str, Any], **optional: Any) -> Document:
    known = required | optional
    return {"type": "object", "required": list(required), "additionalProperties": False, "properties": known}


def _list_of(items: Document) -> Document:
    return {"type": "array", "minItems": 1, "items": items}


_SELECTOR: Final = _fields({"matchLabels": _LABELS})
_ENDPOINTS: Final = _list_of(_fields({"port": _TEXT, "path": {"const": "/metrics"}, "interval": _TIME}))
_TRIGGER: Final = _fields(
    {
        "type": {"const": "prometheus"},
        "metricType": {"enum": ["AverageValue", "Value"]},
        # KEDA takes texts alone.
        "metadata": _fields(dict.fromkeys(("serverAddress", "query", "threshold", "ignoreNullValues"), _TEXT)),
    }
)
_SPECS: Final = {
    ("monitoring.coreos.com/v1", "PodMonitor"): _fields(
        {"jobLabel": _TEXT, "selector": _SELECTOR, "podMetricsEndpoints": _ENDPOINTS}
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _fields(
        {"jobLabel": _TEXT, "selector": _SELECTOR, "endpoints": _ENDPOINTS}
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): _fields(
        {
            "scaleTargetRef": _fields({"name": _TEXT}),
            "minReplicaCount": {"type": "integer"},
            "maxReplicaCount": {"type": "integer"},
            "pollingInterval": {"type": "integer"},
            "triggers": _list_of(_TRIGGER),
        },
        advanced=_fields({"horizontalPodAutoscalerConfig": _fields({"behavior": {"type": "object"}})}),
    ),
    ("cert-manager.io/v1", "Issuer"): {
        "oneOf": [_fields({"selfSigned": {"const": {}}}), _fields({"ca": _fields({"secretName": _TEXT})})]
    },
    ("cert-manager.io/v1", "Certificate"): _fields(
        {
            "secretName": _TEXT,
            "duration": _TIME,
            "privateKey": {"type": "object"},
            "issuerRef": _fields({"name": _TEXT, "kind": {"enum": ["Issuer", "ClusterIssuer"]}}),
        },
        isCA={"type": "boolean"},
        commonName=_TEXT,
        dnsNames=_list_of(_TEXT),
        usages=_list_of({"enum": ["digital signature", "server auth", "client auth"]}),
    ),
}


def refusal_of(document: Document, version: str) -> str:
    """Returns why a version of Kubernetes would refuse an object; nothing where it fits."""
    spec = _SPECS.get((document["apiVersion"], document["kind"]))
    try:
        if spec is None:
            kubernetes_validate.validate(document, version, strict=True)
        else:
            assert document["metadata"]["name"]
            jsonschema.validate(document["spec"], spec)
    except (kubernetes_validate.ValidationError, jsonschema.ValidationError) as refused:
        return str(refused)
    return ""


def named(document: Document) -> str:
    """Returns the kind and the name of an object."""
    return f"{document['kind']}-{document['metadata']['name']}"
