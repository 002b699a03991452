"""Checks manifests by the backend's own rules, without a backend."""

from collections.abc import Iterable
from contextlib import closing

from backend.schemas.judge import SchemaJudge
from backend.workflows.manifests.loader import LoadedManifests, ManifestText, check_manifests
from deploy.failures import CommandError


def check_texts(texts: Iterable[ManifestText], *, complete: bool) -> LoadedManifests:
    """Returns the documents of manifest files, and all their problems; see `check_manifests`."""
    with closing(SchemaJudge()) as judge:
        return check_manifests(texts, judge.manifest_checks(), complete=complete)


def refused(problems: Iterable[tuple[str, str]]) -> CommandError:
    """Returns the failure of a command whose manifests have these problems."""
    details = [{"name": place, "reason": reason} for place, reason in problems]
    return CommandError("The manifests are not valid.", code="invalid_request", details=details)
