"""Check of the identity provider for the console: its discovery document and its keys."""

from collections.abc import Iterator
from typing import Final

from backend.common.secrets import Secrets
from backend.services.users.oidc.http import ProviderError
from deploy.config.settings import identity_provider
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, failed, ok

_NAME: Final = "sign-in"


def check_identity_provider(examined: ExaminedPart) -> Iterator[Finding]:
    """Reads document and keys as a sign-in does. For backends, because they, not consoles, call the provider."""
    settings = identity_provider(examined.settings.oidc)
    if settings is None or examined.part not in {ServingPart.SERVE, ServingPart.BACKEND}:
        return
    from backend.common.clock import system_clock
    from backend.services.users.oidc.provider import Provider

    provider = Provider(settings, Secrets(examined.settings.secrets, examined.environment), system_clock)
    try:
        keys = provider.examine()
    except (ProviderError, TimeoutError) as error:
        reason = str(error) or f"no answer within {settings.timeout_seconds:g} seconds"
        yield failed(
            _NAME,
            f"Nobody can sign in with the identity provider {settings.issuer}: {reason}.",
            "Look at oidc.issuer, which is spelt as in the provider's description, and at the network to it.",
        )
        return
    if keys:
        yield ok(_NAME, f"The identity provider {settings.issuer} answers, with {keys} keys.")
    else:
        yield failed(
            _NAME,
            f"The identity provider {settings.issuer} has no key that tokens can be checked with.",
            "Look at its keys: RSA or elliptic curves are needed.",
        )
