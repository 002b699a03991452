"""A process that has imported the modules of one environment, and is forked for each of its steps.

A start of Python with its imports is 10 to 17 ms of processor time, and that of pandas half a second; a fork with
namespaces of its own is a few (decisions/0025).
"""

import contextlib
import marshal
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from backend.isolation.sandbox import interpreter
from backend.isolation.sandbox.forked import ForkedProcess, NotIsolatedError, TemplateProcess, dead, killed
from backend.isolation.sandbox.inside.channel import HEADER_BYTES
from backend.isolation.sandbox.inside.template import FAILED, FORKED, IMPOSSIBLE, READY, reason
from backend.isolation.sandbox.layer import Layer, TemplateLaunch
from backend.isolation.sandbox.limits import Limits
from backend.isolation.sandbox.process import StepLog, StepProcess, WatchedProcesses

MOST_STEPS: Final = 1_000
MOST_SECONDS: Final = 600.0
"""Forks and seconds after which a template is replaced, because all its forks share one memory layout."""
START_SECONDS: Final = 150.0
ANSWER_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 1.0
"""Pause between two looks at a step that outlives its kill."""
_MOST_ANSWER_BYTES: Final = 2_000


class NoTemplateError(Exception):
    """Steps of these limits can never be forked here; the message says why."""


class Template(WatchedProcesses):
    """A template of steps that agree in `Limits.of_template`; made on the spawner's thread, with which it dies.

    While it imports packages it is watched as a step is. `step_ended` is called, on any thread, once one of its steps
    is dead.

    Raises:
        OSError: the machine cannot start it.
        SandboxUnavailableError: there is no interpreter.
    """

    wrapped = True

    def __init__(
        self,
        layer: Layer,
        launch: TemplateLaunch,
        limits: Limits,
        program_fd: int,
        step_ended: Callable[[], None],
    ) -> None:
        super().__init__(launch.launch)
        self.limits = limits
        self.faulty = False
        """True once the template must fork no more."""
        self._launch = launch
        self._step_ended = step_ended
        self._own_network = limits.network == "none"
        self._began = time.monotonic()
        self._forked = 0
        self._forking: set[Future[StepProcess]] = set()
        self._steps: set[int] = set()
        self._users: set[int] = set()
        """Allocated users of forked processes; each is given back once its processes are dead."""
        self._process: TemplateProcess | None = None
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="step-template")
        with contextlib.ExitStack() as undo:
            undo.callback(launch.launch.discard)
            command = [str(interpreter.executable()), *interpreter.FLAGS]
            self._control, template_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(self._control.close)
            with template_end:
                self._popen = subprocess.Popen(
                    [*launch.launch.argv, *command, f"/proc/self/fd/{program_fd}", str(template_end.fileno())],
                    env=launch.launch.environment,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(program_fd, template_end.fileno()),
                    start_new_session=True,
                )
            undo.pop_all()
        # A template that has ended already is found out when its answer is awaited.
        with contextlib.suppress(OSError):
            self._control.send(marshal.dumps({**launch.options, "packages": _packages(layer, limits)}))

    @property
    def pid(self) -> int:
        """Id of the layer's process, from which the template and all its steps descend."""
        return self._popen.pid

    @property
    def excluded_pids(self) -> frozenset[int]:
        """First processes of the steps that were forked from this template."""
        return frozenset(self._steps)

    @property
    def expired(self) -> bool:
        """Returns whether the template has forked so many steps, or run so long, that another must replace it."""
        return self._forked >= MOST_STEPS or time.monotonic() - self._began > MOST_SECONDS

    @property
    def busy(self) -> bool:
        """Returns whether a step of this template runs or is being forked."""
        # In this order, because a forked step joins the running ones before it leaves those being forked.
        return bool(self._forking) or bool(self._steps)

    def try_out(self) -> Future[None]:
        """Forks a step that gets no request, once everything is imported.

        The future raises NoTemplateError if steps cannot be forked or are not isolated, and OSError if this start
        failed.

        Raises:
            RuntimeError: the machine cannot start a thread.
        """
        return self._thread.submit(self._try_out)

    def forked(self, limits: Limits) -> Future[StepProcess]:
        """Forks a step that waits for its request; the future raises OSError if that fails.

        Runs on a thread of this template, so that a slow fork delays no step of other environments.
        """
        future = self._thread.submit(self._fork, limits)
        self._forking.add(future)
        future.add_done_callback(self._forking.discard)
        return future

    def mark_faulty(self) -> None:
        """Makes the template fork no more."""
        self.faulty = True

    def kill(self) -> None:
        """Kills the template and every step that was forked from it, without waiting for their end."""
        self.mark_faulty()
        if self._popen.poll() is None:
            # Until it is set up, bubblewrap's child does not die with bubblewrap, so their group is killed; the group
            # is gone if another thread has reaped it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the template and all its steps, and waits for their end; not on one of the template's threads."""
        self._closing.set()
        # The first process of the template's namespace dies, and so all others in the namespace.
        self.kill()
        self._popen.wait()
        self._thread.shutdown(wait=True)
        self._control.close()
        for user in list(self._users):
            self._give_back(user)
        self._launch.launch.discard()

    def _try_out(self) -> None:
        try:
            self._fork_for_trial()
        except NotIsolatedError as error:
            raise NoTemplateError(str(error)) from error
        except OSError as error:
            if self.exceeded is not None:
                raise NoTemplateError(f"what is preloaded exceeds the limit of {self.exceeded}") from error
            raise

    def _fork_for_trial(self) -> None:
        if not self._answered(START_SECONDS):
            raise TimeoutError(f"the template did not start within {START_SECONDS:.0f} seconds")
        answer = self._control.recv(_MOST_ANSWER_BYTES)
        if answer.startswith(IMPOSSIBLE):
            raise NoTemplateError(reason(answer))
        if answer != READY:
            raise OSError(reason(answer) or "the template ended")
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
        if self.faulty:
            raise OSError("the template forks no more")
        with contextlib.ExitStack() as undo:
            # Resources that the worker may lack are taken first, so that their lack is not taken for a faulty template.
            unsent = undo.enter_context(contextlib.ExitStack())
            user = self._launch.take_user()
            self._users.add(user)
            unsent.callback(self._give_back, user)
            with contextlib.ExitStack() as handed_over:
                worker_end, step_end = socket.socketpair()
                undo.callback(worker_end.close)
                handed_over.callback(step_end.close)
                link, their_link = socket.socketpair()
                undo.callback(link.close)
                handed_over.callback(their_link.close)
                log_read, log_write = os.pipe()
                undo.callback(os.close, log_read)
                handed_over.callback(os.close, log_write)
                self._send((user, limits.workspace_bytes), (step_end.fileno(), log_write, their_link.fileno()))
            unsent.pop_all()
            first = self._first_process(user)
            undo.callback(self._abandon, first, user)

            def ended(pid: int) -> None:
                self._steps.discard(pid)
                self._give_back(user)
                self._step_ended()

            def outlived(pid: int, first: int) -> None:
                self._await_death(first, lambda: ended(pid))

            step = ForkedProcess(
                first,
                self._launch.launch,
                worker_end,
                StepLog(log_read),
                link,
                own_network=self._own_network,
                template=self._process_of,
                ended=ended,
                on_fault=self.mark_faulty,
                outlived=outlived,
            )
            undo.pop_all()
        worker_end.setblocking(False)
        link.setblocking(False)
        self._forked += 1
        self._steps.add(step.pid)
        return step

    def _send(self, message: tuple[int, int], fds: tuple[int, ...]) -> None:
        try:
            socket.send_fds(self._control, [marshal.dumps(message)], fds)
        except ConnectionError:
            self.mark_faulty()
            raise

    def _first_process(self, user: int) -> int:
        """Returns a pidfd of the process that was forked. Raises OSError, and gives the user back if there is none."""
        if not self._answered(ANSWER_SECONDS):
            self.mark_faulty()
            raise TimeoutError(f"the template did not answer within {ANSWER_SECONDS:.0f} seconds")
        try:
            answer, fds, _, _ = socket.recv_fds(self._control, _MOST_ANSWER_BYTES, 1)
        except OSError:
            self.mark_faulty()
            raise
        if answer == FORKED and fds:
            return fds[0]
        if answer == FORKED:
            # The step ends when its socket is closed.
            raise OSError("the worker has no room for the descriptor of a step")
        if answer.startswith(FAILED):
            self._give_back(user)
        else:
            self.mark_faulty()
        raise OSError(reason(answer) or "the template has ended")

    def _abandon(self, first: int, user: int) -> None:
        """Ends a step that was forked and cannot be used."""
        if killed(first):
            self._give_back(user)
            os.close(first)
        else:
            self._await_death(first, lambda: self._give_back(user))

    def _await_death(self, first: int, callback: Callable[[], None]) -> None:
        """Calls `then` once a step that outlived its kill is dead; does not block. It closes the descriptor."""
        # The template's thread is free for this: a faulty template forks no more.
        self.mark_faulty()
        try:
            self._thread.submit(self._call_when_dead, first, callback)
        except RuntimeError:
            # `close` has given back the step's user.
            os.close(first)

    def _call_when_dead(self, first: int, callback: Callable[[], None]) -> None:
        try:
            while not dead(first):
                if self._closing.wait(RETRY_SECONDS):
                    return
            callback()
        finally:
            os.close(first)

    def _give_back(self, user: int) -> None:
        """Releases the user of a step that is dead, once."""
        with contextlib.suppress(KeyError):
            self._users.remove(user)
            self._launch.give_back_user(user)

    def _process_of(self, pid: int) -> TemplateProcess:
        """Returns the kernel's record of the template; raises ValueError if `pid` is another process."""
        if self._process is None:
            self._process = TemplateProcess.of(pid)
        if self._process.pid != pid:
            raise ValueError("it has another parent than the template")
        return self._process

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
