"""The templates of the environments used last."""

import logging
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from typing import Final

from backend.confined.spawner import Spawner
from backend.sandbox.layer import Layer
from backend.sandbox.limits import Limits
from backend.sandbox.pool import MOST_ENVIRONMENTS
from backend.sandbox.process import StepProcess
from backend.sandbox.start_policy import StartPolicy
from backend.sandbox.template import NoTemplateError, Template
from backend.sandbox.watch import LimitWatch

_LOG = logging.getLogger(__name__)

_MOST_POLICIES: Final = 1_000
"""Environments whose failures are known; the one noted first is forgotten."""
_OWN_INTERPRETERS: Final = "Steps start interpreters of their own, because none can be forked: %s"


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
        """Those of environments whose templates have failed."""
        self._closed = False

    def forked(self, limits: Limits) -> Future[StepProcess] | None:
        """Forks a step of these limits; see `Template.forked`. None while there is no template, which is started."""
        with self._lock:
            template = self._present(limits)
            # Under the lock, so that a template that has to fork is not found idle and ended.
            forked = None if template is None else template.forked(limits)
        if forked is not None:
            forked.add_done_callback(lambda _: self._end_retired())
        return forked

    def await_first(self, limits: Limits, then: Callable[[], None]) -> bool:
        """Returns False if there is nothing to wait for; else calls `then` when the first template serves or fails."""
        with self._lock:
            waits = self._present(limits) is None and limits.of_template in self._starting
            if waits:
                self._waiting[limits.of_template].append(then)
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
        """Lets a template serve that was tried out, or ends one that failed."""
        if template is not None:
            self._watch.remove(template)
        with self._lock:
            if self._closed:
                # `close` ends it.
                return
            del self._starting[key]
            if error is not None:
                self._note(key, error)
                if template is not None:
                    self._reapers.submit(template.close)
            elif template is not None:
                self._serve(key, template)
            waiting = self._waiting.pop(key, [])
        for then in waiting:
            then()

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
        if len(self._policies) > _MOST_POLICIES:
            del self._policies[next(iter(self._policies))]
        return policy

    def _note(self, key: Hashable, error: BaseException) -> None:
        """Notes why a template did not start."""
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
        # What is retired after this look is looked at when it retires.
        if self._retired:
            with self._lock:
                self._end_idle()

    def _end_idle(self) -> None:
        if self._closed or not self._retired:
            # `close` ends them.
            return
        idle = [template for template in self._retired if not template.busy]
        self._retired = [template for template in self._retired if template not in idle]
        for template in idle:
            self._reapers.submit(template.close)
