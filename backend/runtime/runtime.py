"""What the services of one process know as the runtime: it dispatches and executes. (DESIGN.md, 6)."""

from backend.redaction.process.redactor import Redactor
from backend.runtime.execution.executor import SEGMENTS_PER_SLOT, Execution
from backend.runtime.publishing import Publisher
from backend.runtime.scheduling.dispatcher import Dispatch
from backend.services import Services
from backend.settings import BackendSettings
from backend.storage.objects import ObjectStore
from telemetry import Family


class LocalRuntime:
    """Makes runs go in this process.

    Nothing happens before `start`; until then, and after `stop`, the calls of the runs service only leave work behind
    in the tables.
    """

    def __init__(
        self,
        settings: BackendSettings,
        services: Services,
        objects: ObjectStore,
        publisher: Publisher,
        redactor: Redactor,
    ) -> None:
        self._execution = Execution(settings, services, objects, publisher, redactor, on_free=self.wake)
        most = SEGMENTS_PER_SLOT * settings.step_slots
        self._dispatch = Dispatch(services, objects, self._execution, lambda: most, self, self._execution.forget)

    def start(self) -> None:
        """Starts to execute, then takes up what is queued; a start that fails leaves nothing behind that runs.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
        """
        try:
            self._execution.start()
            self._dispatch.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Takes nothing new, lets steps go on for a short grace, and ends the rest as orphaned; again is harmless."""
        self._dispatch.stop()
        self._execution.stop()

    def wake(self) -> None:
        """Tells that a segment was queued; see `Runtime.wake`."""
        self._dispatch.launching.wake()

    def cancel(self, run_id: str) -> None:  # noqa: ARG002 - the run's row says it all, and survives a crash
        """Tells that a running run shall end; see `Runtime.cancel`."""
        self._execution.look()

    def forget(self, run_id: str) -> None:  # noqa: ARG002 - its order is in the tables, and survives a crash
        """Tells that a run was erased; see `Runtime.forget`."""
        self._dispatch.removing.wake()

    def measured(self) -> list[Family]:
        """What is executed here."""
        return self._execution.measured()

    def upkeep(self) -> dict[str, int]:
        """Erases and deletes what is past its time; see `Runtime.upkeep`."""
        return self._dispatch.upkeep()
