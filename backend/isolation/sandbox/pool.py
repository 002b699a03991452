"""Processes kept ready for the environments used last: sandboxes that wait for a step, and templates to fork from."""

import logging
import threading
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from typing import Final

from backend.isolation.confined.process import Spawner
from backend.isolation.sandbox.layer import Layer
from backend.isolation.sandbox.limits import Limits
from backend.isolation.sandbox.process import StepProcess
from backend.isolation.sandbox.template import NoTemplateError, Template
from backend.isolation.sandbox.watch import LimitWatch

MOST_ENVIRONMENTS = 4
REFILL_SECONDS = 0.03


class WarmPool:
    """Pool of started sandboxes for the environments used last. Thread-safe.

    Only the size of the workspace, the network and the packages are fixed when a sandbox starts, and the runner sets
    the other limits by its request, so environments that agree in these share sandboxes. Each sandbox is used once.

    `REFILL_SECONDS` after a sandbox was taken, `fill` starts another; where it was the last one, `take` does so itself.
    On one core the start of the next sandbox held the step that got this one up for 7 ms, half of a one-step run.
    (`python -m benchmarks`: a one-step run alone.)
    """

    def __init__(self, refill: Callable[[Limits], None], discard: Callable[[StepProcess], None], size: int) -> None:
        self._refill = refill
        self._discard = discard
        self._size = size
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Hashable, list[StepProcess]] = OrderedDict()
        self._starting: dict[Hashable, int] = {}
        self._closed = False

    def waiting(self, limits: Limits) -> list[StepProcess]:
        """Returns the started sandboxes of these limits that no step has taken, the next to be taken first."""
        with self._lock:
            return list(self._waiting.get(limits.fixed_at_start, []))

    def take(self, limits: Limits) -> StepProcess | None:
        """Returns a started sandbox of these limits if there is one; if then none is left, starts more at once."""
        return self._take(limits, wanted=True)

    def fill(self, limits: Limits) -> None:
        """Starts sandboxes of these limits for later steps."""
        self._take(limits, wanted=False)

    def _take(self, limits: Limits, *, wanted: bool) -> StepProcess | None:
        if self._size == 0:
            return None
        taken = None
        dead: list[StepProcess] = []
        with self._lock:
            waiting = self._waiting.setdefault(limits.fixed_at_start, [])
            self._waiting.move_to_end(limits.fixed_at_start)
            while wanted and taken is None and waiting:
                first = waiting.pop(0)
                if first.alive:
                    taken = first
                else:
                    dead.append(first)
            while len(self._waiting) > MOST_ENVIRONMENTS:
                dead += self._waiting.popitem(last=False)[1]
            starting = self._starting.get(limits.fixed_at_start, 0)
            missing = 0 if self._closed or (wanted and waiting) else self._size - len(waiting) - starting
            self._starting[limits.fixed_at_start] = starting + missing
        for process in dead:
            self._discard(process)
        for _ in range(missing):
            self._refill(limits)
        return taken

    def put(self, limits: Limits, process: StepProcess | None) -> None:
        """Adds a sandbox that a refill has started, or None if that failed."""
        with self._lock:
            self._starting[limits.fixed_at_start] -= 1
            wanted = not self._closed and limits.fixed_at_start in self._waiting
            if process is not None and wanted:
                self._waiting[limits.fixed_at_start].append(process)
        if process is not None and not wanted:
            self._discard(process)

    def close(self) -> None:
        """Ends every waiting sandbox, and discards later ones."""
        with self._lock:
            self._closed = True
            idle = [process for waiting in self._waiting.values() for process in waiting]
            self._waiting.clear()
        for process in idle:
            self._discard(process)


_LOG = logging.getLogger(__name__)

MOST_POLICIES: Final = 1_000
"""Environments whose failures are remembered; the oldest is forgotten first."""
_OWN_INTERPRETERS: Final = "Steps start interpreters of their own, because none can be forked: %s"

FIRST_PAUSE_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 300.0
"""First and longest pause after a start that failed for a temporary reason; each further failure doubles it."""
MOST_FAULTS: Final = 3
FAULT_WINDOW_SECONDS: Final = 3_600.0
"""MOST_FAULTS faulty templates of an environment within the window stop starts until the first fault has left it."""

_MOST_DOUBLINGS: Final = 16


class StartPolicy:
    """Decides when a template of one environment may start. Times are monotonic seconds. Not thread-safe."""

    def __init__(self) -> None:
        self._refused = False
        self._failures = 0
        self._not_before = float("-inf")
        self._faults: deque[float] = deque(maxlen=MOST_FAULTS)

    def may_start(self, now: float) -> bool:
        """Returns whether a template may be started now."""
        return now >= self._not_before and not self.ruled_out(now)

    def ruled_out(self, now: float) -> bool:
        """Returns whether a refusal or too many faults, not just a pause, forbid a start."""
        faults = len(self._faults) == MOST_FAULTS and now - self._faults[0] < FAULT_WINDOW_SECONDS
        return self._refused or faults

    def blank(self, now: float) -> bool:
        """Returns whether the policy holds no failure, and so equals a new one."""
        recent = bool(self._faults) and now - self._faults[-1] < FAULT_WINDOW_SECONDS
        return not (self._refused or self._failures or recent)

    def refuse(self) -> None:
        """Forbids every later start."""
        self._refused = True

    def failed(self, now: float) -> float:
        """Counts a start that failed for a temporary reason; returns the seconds until the next start."""
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, _MOST_DOUBLINGS), MOST_PAUSE_SECONDS)
        self._failures += 1
        self._not_before = now + pause
        return pause

    def started(self) -> None:
        """Resets the pause after failures, once a start has succeeded."""
        self._failures = 0

    def add_fault(self, now: float) -> None:
        """Counts a template that was found faulty while it served."""
        self._faults.append(now)


class Templates:
    """The templates of a worker. Thread-safe.

    A template serves once it has imported what its environment preloads and a step that was forked for trial has been
    found isolated. One that has expired serves until the next is ready, or until it is known that none can follow. It
    is then retired, and ends once none of its steps runs or is being forked. `StartPolicy` says when one is started.

    Templates are started by the spawner, and die with its thread; they are ended on threads of `reapers`.
    """

    def __init__(self, layer: Layer, program_fd: int, watch: LimitWatch, spawner: Spawner, reapers: Executor) -> None:
        self._layer = layer
        self._program_fd = program_fd
        self._watch = watch
        self._spawner = spawner
        self._reapers = reapers
        self._lock = threading.Lock()
        self._serving: OrderedDict[Hashable, Template] = OrderedDict()
        self._starting: dict[Hashable, Template | None] = {}
        self._retired: list[Template] = []
        self._waiting: defaultdict[Hashable, list[Callable[[], None]]] = defaultdict(list)
        self._policies: dict[Hashable, StartPolicy] = {}
        """Start policies of environments whose templates have failed."""
        self._closed = False

    def serving(self, limits: Limits) -> Template | None:
        """Returns the template that serves steps of these limits, and starts none."""
        with self._lock:
            return self._serving.get(limits.of_template)

    def forked(self, limits: Limits) -> Future[StepProcess] | None:
        """Forks a step of these limits; see `Template.forked`. None while there is no template, which is started."""
        with self._lock:
            template = self._present(limits)
            # Under the lock, so that a template about to fork is not taken for idle and ended.
            forked = None if template is None else template.forked(limits)
        if forked is not None:
            forked.add_done_callback(lambda _: self._end_retired())
        return forked

    def await_first(self, limits: Limits, callback: Callable[[], None]) -> bool:
        """Returns False if there is nothing to wait for; else calls `then` when the first template serves or fails."""
        with self._lock:
            waits = self._present(limits) is None and limits.of_template in self._starting
            if waits:
                self._waiting[limits.of_template].append(callback)
        return waits

    def close(self) -> None:
        """Ends all templates with all their steps; called once the spawner's thread has ended."""
        with self._lock:
            self._closed = True
            starting = [template for template in self._starting.values() if template is not None]
            ending = [*self._serving.values(), *starting, *self._retired]
        for template in ending:
            self._watch.remove(template)
            template.close()

    def _present(self, limits: Limits) -> Template | None:
        """Returns the template that serves; starts one if there is none or it has expired. The caller has the lock."""
        if self._closed:
            return None
        key = limits.of_template
        template = self._serving.get(key)
        if template is not None and template.faulty:
            self._give_up(key)
            template = None
        if template is None or template.expired:
            self._start(key, limits)
            if self._policy(key).ruled_out(time.monotonic()):
                self._retire(key)
                template = None
        if template is not None:
            self._serving.move_to_end(key)
        self._end_idle()
        return template

    def _start(self, key: Hashable, limits: Limits) -> None:
        if key not in self._starting and self._policy(key).may_start(time.monotonic()):
            self._starting[key] = None
            self._spawner.submit(lambda: self._launch(key, limits))

    def _launch(self, key: Hashable, limits: Limits) -> None:
        template: Template | None = None
        try:
            launch = self._layer.launch_template(limits)
            if launch is None:
                self._settle(key, None, NoTemplateError())
                return
            template = Template(self._layer, launch, limits, self._program_fd, self._end_retired)
            with self._lock:
                self._starting[key] = template
            if limits.preloads:
                self._watch.add(template, limits)
            trial = template.try_out()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next start must not wait for this one
            self._settle(key, template, error)
            return
        trial.add_done_callback(lambda tried: self._settle(key, template, tried.exception()))

    def _settle(self, key: Hashable, template: Template | None, error: BaseException | None) -> None:
        """Lets a template that was tried out serve, or ends a template that failed."""
        if template is not None:
            self._watch.remove(template)
        with self._lock:
            if self._closed:
                # `close` ends the template.
                return
            del self._starting[key]
            if error is not None:
                self._note(key, error)
                if template is not None:
                    self._reapers.submit(template.close)
            elif template is not None:
                self._serve(key, template)
            waiting = self._waiting.pop(key, [])
        for callback in waiting:
            callback()

    def _serve(self, key: Hashable, template: Template) -> None:
        policy = self._policy(key)
        policy.started()
        if policy.blank(time.monotonic()):
            self._policies.pop(key, None)
        self._retire(key)
        self._serving[key] = template
        while len(self._serving) > MOST_ENVIRONMENTS:
            self._retire(next(iter(self._serving)))
        self._end_idle()

    def _policy(self, key: Hashable) -> StartPolicy:
        return self._policies.get(key) or StartPolicy()

    def _kept_policy(self, key: Hashable) -> StartPolicy:
        """Returns the policy of an environment, to note a failure in it."""
        policy = self._policies.setdefault(key, StartPolicy())
        if len(self._policies) > MOST_POLICIES:
            del self._policies[next(iter(self._policies))]
        return policy

    def _note(self, key: Hashable, error: BaseException) -> None:
        """Records why a template did not start."""
        if isinstance(error, NoTemplateError):
            self._kept_policy(key).refuse()
            # Without a reason the layer has no templates.
            if str(error):
                _LOG.warning(_OWN_INTERPRETERS, error)
            return
        pause = self._kept_policy(key).failed(time.monotonic())
        known = isinstance(error, OSError | RuntimeError)
        text = "A template of steps did not start, and is tried again in %.0f s: %s"
        _LOG.warning(text, pause, error, exc_info=None if known else error)

    def _give_up(self, key: Hashable) -> None:
        now = time.monotonic()
        self._retire(key)
        self._kept_policy(key).add_fault(now)
        _LOG.error("A template of steps is faulty, and is replaced")
        if self._policy(key).ruled_out(now):
            _LOG.warning(_OWN_INTERPRETERS, "too many templates were faulty within an hour")

    def _retire(self, key: Hashable) -> None:
        template = self._serving.pop(key, None)
        if template is not None:
            self._retired.append(template)

    def _end_retired(self) -> None:
        """Ends retired templates, once a step has ended or was not forked; called without the lock, on any thread."""
        # A template that retires after this look is looked at when it retires.
        if self._retired:
            with self._lock:
                self._end_idle()

    def _end_idle(self) -> None:
        if self._closed or not self._retired:
            # `close` ends the retired templates.
            return
        idle = [template for template in self._retired if not template.busy]
        self._retired = [template for template in self._retired if template not in idle]
        for template in idle:
            self._reapers.submit(template.close)
