"""A process that has imported what steps of one environment need, and is forked for each of them.

A start of Python with its imports is 10 to 17 ms of processor time, and that of pandas half a second; a fork with
namespaces of its own is a few (decisions/0025).
"""

import contextlib
import marshal
import os
import select
import socket
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from backend.sandbox import interpreter
from backend.sandbox.forked import ForkedProcess, TemplateProcess
from backend.sandbox.inside.protocol import HEADER_BYTES
from backend.sandbox.inside.template import FORKED, READY
from backend.sandbox.layer import Layer, TemplateLaunch
from backend.sandbox.limits import Limits
from backend.sandbox.log import StepLog
from backend.sandbox.process import StepProcess, Watched

MOST_STEPS: Final = 1_000
MOST_SECONDS: Final = 600.0
"""Steps forked, and seconds since the start, after which a template is replaced: all its forks share one layout."""
START_SECONDS: Final = 150.0
ANSWER_SECONDS: Final = 10.0
_MOST_ANSWER_BYTES: Final = 2_000


class NoTemplateError(Exception):
    """Steps of these limits cannot be forked here; the message says why."""


class Template(Watched):
    """A template of steps that agree in `Limits.of_template`; made on the spawner's thread, with which it dies.

    It is watched as a step is while it imports packages.

    Raises:
        OSError: the machine cannot start it.
    """

    wrapped = True

    def __init__(self, layer: Layer, launch: TemplateLaunch, limits: Limits, program_fd: int) -> None:
        super().__init__(launch.launch)
        self.limits = limits
        self.odd = False
        """Whether it must be given up."""
        self._launch = launch
        self._own_network = limits.network == "none"
        self._began = time.monotonic()
        self._forked = 0
        self._steps: set[int] = set()
        self._process: TemplateProcess | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="step-template")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(self._control.close)
            undo.callback(launch.launch.discard)
            command = [str(interpreter.executable()), *interpreter.FLAGS]
            self._popen = subprocess.Popen(
                [*launch.launch.argv, *command, f"/proc/self/fd/{program_fd}", str(theirs.fileno())],
                env=launch.launch.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(program_fd, theirs.fileno()),
                start_new_session=True,
            )
            undo.pop_all()
        # One that has ended already is found out when its answer is awaited.
        with contextlib.suppress(OSError):
            self._control.send(marshal.dumps({**launch.options, "packages": _packages(layer, limits)}))

    @property
    def pid(self) -> int:
        """Id of the layer's process, from which the template and all its steps descend."""
        return self._popen.pid

    @property
    def apart(self) -> frozenset[int]:
        """First processes of the steps that were forked from it."""
        return frozenset(self._steps)

    @property
    def worn(self) -> bool:
        """Returns whether it has run long enough to be replaced."""
        return self._forked >= MOST_STEPS or time.monotonic() - self._began > MOST_SECONDS

    def try_out(self) -> Future[None]:
        """Forks a step that gets no request, once everything is imported.

        The future raises NoTemplateError or OSError if the template does not start, or the step is not isolated.
        """
        return self._thread.submit(self._try_out)

    def forked(self, limits: Limits) -> Future[StepProcess]:
        """Forks a step that waits for its request; the future raises OSError if the template cannot do that.

        On a thread of this template, so that none that is slow delays the steps of other environments.
        """
        try:
            return self._thread.submit(self._fork, limits)
        except RuntimeError as error:
            closed: Future[StepProcess] = Future()
            closed.set_exception(OSError(str(error)))
            return closed

    def give_up(self) -> None:
        """Marks this template as one that must fork no more."""
        self.odd = True

    def kill(self) -> None:
        """Kills the template and every step that was forked from it, without waiting for their end."""
        self.odd = True
        self._popen.kill()

    def close(self) -> None:
        """Ends the template and every step that was forked from it; not on a thread of its own."""
        # The first process of its namespace dies with it, and so everything in that.
        self._popen.kill()
        self._popen.wait()
        self._thread.shutdown(wait=True)
        self._control.close()
        self._launch.launch.discard()

    def _try_out(self) -> None:
        if not self._answered(START_SECONDS):
            raise NoTemplateError(f"the template did not start within {START_SECONDS:.0f} seconds")
        answer = self._control.recv(_MOST_ANSWER_BYTES)
        if answer != READY:
            raise NoTemplateError(answer.decode(errors="replace") or "the template ended")
        step = self._fork(self.limits)
        try:
            step.channel.settimeout(ANSWER_SECONDS)
            if len(step.channel.recv(HEADER_BYTES)) != HEADER_BYTES:
                raise OSError(step.log.text().decode(errors="replace") or "the step that was forked for trial ended")
            step.confirm()
        finally:
            step.end()
            step.close()

    def _fork(self, limits: Limits) -> StepProcess:
        try:
            return self._fork_step(limits)
        except OSError:
            self.give_up()
            raise

    def _fork_step(self, limits: Limits) -> StepProcess:
        with contextlib.ExitStack() as undo:
            user = self._launch.take_user()
            undo.callback(self._launch.give_back_user, user)
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            link, their_link = socket.socketpair()
            undo.callback(link.close)
            log_read, log_write = os.pipe()
            undo.callback(os.close, log_read)
            try:
                with theirs, their_link:
                    fds = [theirs.fileno(), log_write, their_link.fileno()]
                    socket.send_fds(self._control, [marshal.dumps((user, limits.workspace_bytes))], fds)
            finally:
                os.close(log_write)
            first = self._first_process()
            undo.callback(os.close, first)

            def ended(pid: int) -> None:
                self._steps.discard(pid)
                self._launch.give_back_user(user)

            step = ForkedProcess(
                first,
                self._launch.launch,
                ours,
                StepLog(log_read),
                link,
                own_network=self._own_network,
                template=self._known,
                ended=ended,
                odd=self.give_up,
            )
            undo.pop_all()
        ours.setblocking(False)
        link.setblocking(False)
        self._forked += 1
        self._steps.add(step.pid)
        return step

    def _known(self, pid: int) -> TemplateProcess:
        if self._process is None:
            self._process = TemplateProcess.of(pid)
        if self._process.pid != pid:
            raise ValueError("it has another parent than the template")
        return self._process

    def _first_process(self) -> int:
        if not self._answered(ANSWER_SECONDS):
            raise OSError(f"the template did not answer within {ANSWER_SECONDS:.0f} seconds")
        answer, fds, _, _ = socket.recv_fds(self._control, _MOST_ANSWER_BYTES, 1)
        if answer != FORKED or len(fds) != 1:
            for fd in fds:
                os.close(fd)
            raise OSError("the template has ended")
        return fds[0]

    def _answered(self, wait_seconds: float) -> bool:
        waiting = select.poll()
        waiting.register(self._control, select.POLLIN)
        return bool(waiting.poll(wait_seconds * 1000))


def _packages(layer: Layer, limits: Limits) -> dict[str, Any] | None:
    if limits.packages is None:
        return None
    return {
        "path": layer.place_of(limits.packages),
        "preload": list(limits.packages.preload),
        "memory_bytes": limits.memory_bytes,
    }
