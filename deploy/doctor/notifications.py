"""Check of the targets of notifications: whether their addresses can be read."""

from collections.abc import Iterator

from backend.common.secrets import SecretError, Secrets
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, failed, ok


def check_notifications(examined: ExaminedPart) -> Iterator[Finding]:
    """Reads the address of each target. For backends, which send; `notifications test` sends a message."""
    targets = examined.settings.notifications
    if not targets or examined.part not in {ServingPart.SERVE, ServingPart.BACKEND}:
        return
    from backend.services.notifications.attempts import address_of

    secrets = Secrets(examined.settings.secrets, examined.environment)
    for name, target in targets.items():
        try:
            address_of(target, secrets)
        except SecretError as error:
            yield failed("notifications", f"Nobody is notified at {name}: {error}.", "Correct that secret.")
        else:
            yield ok("notifications", f"The address of the target {name} can be read.")
