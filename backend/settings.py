"""What the backend is told at its start; read once by the entry point and passed down."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Settings of one backend process.

    Attributes:
        data: Folder of the embedded database and the stored objects.
        deployment_id: The deployment that this service belongs to, where the data folder is new.
        sandbox: `auto` takes the strongest isolation that works here and refuses to start without one; `none` runs
            steps without isolation, on the operator's word.
        step_slots: Steps that run at once in this process.
        launch_timeout_seconds: A queued segment that nothing takes up for so long fails as `launch_failed`.
        watch_poll_seconds: How often a watch stream looks for changes made by other processes.
    """

    data: Path
    deployment_id: str = "local"
    sandbox: Literal["auto", "none"] = "auto"
    step_slots: int = 8
    launch_timeout_seconds: float = 300.0
    watch_poll_seconds: float = 0.5
