"""Tries out a sandbox in a thread while a command is still importing modules."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from backend.isolation.sandbox import Sandbox, choose_sandbox


@contextmanager
def early_sandbox(setting: str) -> Iterator[Callable[[], Sandbox]]:
    """Chooses the sandbox in a thread, which mostly waits for processes; yields a function that awaits and returns it.

    The caller of the function closes the sandbox. The function raises as `choose_sandbox`.
    """
    taken = False

    def take() -> Sandbox:
        nonlocal taken
        sandbox = chosen.result()
        taken = True
        return sandbox

    with ThreadPoolExecutor(1, thread_name_prefix="early-sandbox") as pool:
        chosen: Future[Sandbox] = pool.submit(partial(choose_sandbox, setting))
        try:
            yield take
        finally:
            if not taken and chosen.exception() is None:
                chosen.result().close()
