"""The templates of the environments used last."""

import logging
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Final

from backend.confined.spawner import Spawner
from backend.sandbox.layer import Layer
from backend.sandbox.limits import Limits
from backend.sandbox.pool import MOST_ENVIRONMENTS
from backend.sandbox.template import NoTemplateError, Template
from backend.sandbox.watch import LimitWatch

_LOG = logging.getLogger(__name__)

MOST_ODDITIES: Final = 3
"""Templates of one environment given up, after which its steps start interpreters of their own."""


class Templates:
    """The templates of a worker. Thread-safe.

    A template serves once it has imported what its environment preloads and a step that was forked for trial has been
    found isolated. A template that is worn serves until the next is ready, and ends after the last of its steps.
    Templates are started by the spawner, and die with its thread.
    """

    def __init__(self, layer: Layer, program_fd: int, watch: LimitWatch, spawner: Spawner) -> None:
        self._layer = layer
        self._program_fd = program_fd
        self._watch = watch
        self._spawner = spawner
        self._lock = threading.Lock()
        self._serving: OrderedDict[Hashable, Template] = OrderedDict()
        self._starting: dict[Hashable, Template | None] = {}
        self._retired: list[Template] = []
        self._failed: set[Template] = set()
        self._waiting: defaultdict[Hashable, list[Callable[[], None]]] = defaultdict(list)
        self._oddities: Counter[Hashable] = Counter()
        self._refused: set[Hashable] = set()
        self._closed = False

    def serving(self, limits: Limits) -> Template | None:
        """Returns the template of these limits if there is one, and starts one if it is missing or worn."""
        key = limits.of_template
        with self._lock:
            done = [template for template in self._retired if not template.apart]
            self._retired = [template for template in self._retired if template not in done]
            template = self._serving.get(key)
            if template is not None and template.odd:
                self._give_up(key)
                template = None
            if template is None or template.worn:
                self._start(key, limits)
            if template is not None:
                self._serving.move_to_end(key)
        for each in done:
            each.close()
        return template

    def await_first(self, limits: Limits, then: Callable[[], None]) -> bool:
        """Returns False if there is nothing to wait for; else calls `then` when the first template serves or fails."""
        if self.serving(limits) is not None:
            return False
        with self._lock:
            waits = limits.of_template in self._starting
            if waits:
                self._waiting[limits.of_template].append(then)
        return waits

    def close(self) -> None:
        """Ends all templates with all their steps; called once the spawner's thread has ended."""
        with self._lock:
            self._closed = True
            starting = [template for template in self._starting.values() if template is not None]
            ending = [*self._serving.values(), *starting, *self._retired, *self._failed]
        for template in ending:
            self._watch.remove(template)
            template.close()

    def _start(self, key: Hashable, limits: Limits) -> None:
        if key not in self._starting and key not in self._refused and not self._closed:
            self._starting[key] = None
            self._spawner.submit(lambda: self._launch(key, limits))

    def _launch(self, key: Hashable, limits: Limits) -> None:
        try:
            launch = self._layer.launch_template(limits)
            template = None if launch is None else Template(self._layer, launch, limits, self._program_fd)
        except OSError as error:
            self._started(key, None, str(error))
            return
        if template is None:
            self._started(key, None, None)
            return
        with self._lock:
            self._starting[key] = template
        if limits.preloads:
            self._watch.add(template, limits)
        template.try_out().add_done_callback(lambda tried: self._tried(key, template, tried))

    def _tried(self, key: Hashable, template: Template, tried: Future[None]) -> None:
        self._watch.remove(template)
        error = tried.exception()
        if error is None:
            self._started(key, template, None)
        else:
            self._started(key, None, str(error), failed=template)
            # Not on the template's own thread.
            self._spawner.submit(lambda: self._end(template))
            if not isinstance(error, OSError | NoTemplateError):
                _LOG.error("A template could not be tried out", exc_info=error)

    def _end(self, failed: Template) -> None:
        with self._lock:
            self._failed.discard(failed)
        failed.close()

    def _started(
        self, key: Hashable, template: Template | None, reason: str | None, *, failed: Template | None = None
    ) -> None:
        """Lets a template serve; without one steps start interpreters, which a reason makes worth a warning."""
        with self._lock:
            del self._starting[key]
            if failed is not None:
                # Where the spawner has ended, `close` ends it.
                self._failed.add(failed)
            if template is None:
                self._refuse(key, None if self._closed else reason)
            else:
                if key in self._serving:
                    self._retired.append(self._serving.pop(key))
                self._serving[key] = template
                while len(self._serving) > MOST_ENVIRONMENTS:
                    self._retired.append(self._serving.popitem(last=False)[1])
            waiting = self._waiting.pop(key, [])
        for then in waiting:
            then()

    def _give_up(self, key: Hashable) -> None:
        self._retired.append(self._serving.pop(key))
        self._oddities[key] += 1
        _LOG.error("A template of steps was odd, and is replaced")
        if self._oddities[key] >= MOST_ODDITIES:
            self._refuse(key, f"{MOST_ODDITIES} templates were odd")

    def _refuse(self, key: Hashable, reason: str | None) -> None:
        self._refused.add(key)
        if reason is not None:
            _LOG.warning("Steps start interpreters of their own, because none can be forked: %s", reason)
