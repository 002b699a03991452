"""The provider that people sign in with is asked for what a sign-in needs."""

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.config.settings import Oidc, Settings
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, ServingPart
from deploy.doctor.identity_provider import check_identity_provider
from tests.support.identity_provider import identity_provider


def found(issuer: str, part: ServingPart = ServingPart.SERVE) -> list[Finding]:
    oidc = Oidc(issuer=issuer, client_id="console", client_secret="oidc", roles={"staff": "viewer"})
    settings = replace(Settings(), oidc=oidc, secrets={"oidc": "env:OIDC"})
    return list(check_identity_provider(ExaminedPart(part, settings, Path("/nowhere"), {})))


def test_a_provider_that_answers_as_it_should_is_told_so() -> None:
    with identity_provider() as provider:
        (check,) = found(provider.issuer)
    assert (check.outcome, "1 keys" in check.message) == (Outcome.OK, True)


@pytest.mark.parametrize(
    ("issuer", "reason"), [("{}/", "another issuer"), ("{}/other", "answered 404"), ("http://127.0.0.1:1", "reached")]
)
def test_a_provider_that_cannot_be_used_is_a_failure(issuer: str, reason: str) -> None:
    with identity_provider() as provider:
        (check,) = found(issuer.format(provider.issuer))
    assert (check.outcome, reason in check.message, "oidc.issuer" in check.remedy) == (Outcome.FAILED, True, True)


def test_a_provider_without_keys_is_a_failure() -> None:
    with identity_provider() as provider:
        provider.keys.clear()
        (check,) = found(provider.issuer)
    assert (check.outcome, "no key" in check.message) == (Outcome.FAILED, True)


def test_only_backends_call_the_provider() -> None:
    assert not [
        check
        for part in (ServingPart.CONSOLE, ServingPart.EDGE, ServingPart.WORKER)
        for check in found("http://127.0.0.1:1", part)
    ]
    assert not list(check_identity_provider(ExaminedPart(ServingPart.SERVE, Settings(), Path("/nowhere"), {})))
