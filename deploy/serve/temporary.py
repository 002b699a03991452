"""A deployment for one command: services and runtime in this process, whose data are removed at the end."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from backend.bootstrap import Backend
from backend.common.secrets import Secrets
from backend.isolation.sandbox import Sandbox
from backend.rpc.interceptors import Handler
from backend.settings import ObjectSettings
from deploy.config.settings import Settings, backend_settings
from deploy.serve.backend import startup_failures

_LOCK_SECONDS: Final = 86_400.0


@contextmanager
def temporary_deployment(
    settings: Settings,
    cache: Path,
    open_sandbox: Callable[[], Sandbox] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Iterator[Mapping[str, Handler]]:
    """Runs a deployment of its own in a temporary folder; yields the handlers of its RPCs.

    It uses the settings of steps, models and secrets. `cache` keeps data that speed up later starts; `secrets` are
    values that connectors may name besides those of the settings. `open_sandbox` returns a sandbox that was chosen
    earlier.

    Raises:
        CommandError: steps cannot be isolated here as the settings ask; the message says why.
    """
    with tempfile.TemporaryDirectory(prefix="workflow-api-run-", ignore_cleanup_errors=True) as name:
        data = Path(name)
        own = backend_settings(settings, data)
        # Without database and objects, because the settings may be those of a real deployment.
        own = replace(
            own,
            database=None,
            engine="local",
            deployment_id="local",
            objects=ObjectSettings(),
            drain_seconds=0.0,
            schedules=False,
            packages=replace(
                own.packages, folder=own.packages.folder or cache / "packages", lock_seconds=_LOCK_SECONDS
            ),
            secrets=_with_values(own.secrets, secrets or {}),
        )
        with startup_failures():
            backend = Backend(own, open_sandbox=open_sandbox)
        try:
            with startup_failures():
                backend.start()
            yield backend.handlers
        finally:
            backend.stop()


def default_cache(environment: Mapping[str, str]) -> Path:
    """Returns this user's cache folder."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workflow-api"


def _with_values(secrets: Secrets, values: Mapping[str, str]) -> Secrets:
    variables = {name: f"{os.getpid()} {name}" for name in values}
    return Secrets(
        {**secrets.sources, **{name: f"env:{variable}" for name, variable in variables.items()}},
        {**secrets.environment, **{variables[name]: value for name, value in values.items()}},
    )
