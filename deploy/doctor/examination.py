"""Runs the checks of a part, each by itself: one that fails unexpectedly is a finding and ends no other."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final

from deploy.doctor.check import Check, Examined, failed

Checks = Callable[[Examined], Iterator[Check]]

_OF_ALL: Final = (
    "software.check_software",
    "engine.check_engine",
    "files.check_secret_files",
    "files.check_open_files",
)
_OF_DATA: Final = (
    "files.check_data_folder",
    "files.check_disks",
    "objects.check_objects",
    "lost_objects.check_lost_objects",
    "sandbox.check_sandbox",
)
_OF_OTHERS: Final = (
    "redis_server.check_redis",
    "certificates.check_certificates",
    "identity_provider.check_identity_provider",
    "service.check_edge",
    "service.check_backends",
    "service.check_service",
)


def examine(examined: Examined) -> Iterator[Check]:
    """Yields what the checks of a part find, in an order from the settings outwards."""
    database = (
        "sqlite_file.check_sqlite" if examined.settings.backend.database is None else "postgresql.check_postgresql"
    )
    of_data = (*_OF_DATA[:2], database, *_OF_DATA[2:]) if examined.part.has_data else ()
    for name in (*_OF_ALL, *of_data, *_OF_OTHERS):
        module, _, function = name.partition(".")
        try:
            # Imported here, so that what one check needs keeps no other from running.
            checks: Checks = getattr(import_module(f"deploy.doctor.{module}"), function)
            yield from checks(examined)
        except OSError as error:
            what, reason = error.filename or module.replace("_", " "), error.strerror or type(error).__name__
            remedy = "Run this as the service's own user, or look at its owner and mode."
            yield failed(module.replace("_", " "), f"{what} cannot be read: {reason}.", remedy)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            # The text of an error may quote a value.
            yield failed(module.replace("_", " "), f"The check itself failed: {type(error).__name__}.", "Report it.")
