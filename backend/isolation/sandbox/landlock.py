"""Layer for machines without namespaces: Landlock rules for files, and a filter of system calls."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from backend.isolation.confined import restrictions
from backend.isolation.confined.restrictions import landlock_abi
from backend.isolation.sandbox import confine, interpreter, seccomp
from backend.isolation.sandbox.bubblewrap import DEVICES, HOST_ALIASES, HOST_FILES
from backend.isolation.sandbox.interpreter import compiled
from backend.isolation.sandbox.layer import (
    DAC_READ_SEARCH,
    Launch,
    Layer,
    Readable,
    SandboxUnavailableError,
    UserIds,
    can_change_users,
    scratch_layout,
    try_out,
)
from backend.isolation.sandbox.limits import PROCESSES, Limits, StepRoot
from backend.isolation.sandbox.root_links import variables_of
from backend.isolation.sandbox.root_view import shown

OLDEST_ABI: Final = 3
"""Landlock of Linux 6.2; earlier versions do not keep a read-only file from being truncated."""
NEWEST_ABI: Final = 6
"""Landlock of Linux 6.12; it restricts the signals of a step to its own processes."""


class Landlock(Layer):
    """Layer of rules for files and a filter of system calls, for machines without namespaces.

    The step sees the names of the host's files, but can open only those that it needs. It writes to a folder of the
    host, whose size the worker checks. Under root with the capability to read all files each step runs as its own
    user; otherwise as the user of the service.
    """

    name = "landlock"
    guarded = "guard"

    def __init__(self, *, own_user: bool | None = None, abi: int | None = None) -> None:
        self._abi = min(landlock_abi(), abi or NEWEST_ABI)
        if self._abi < OLDEST_ABI:
            has = f"has Landlock {self._abi}" if self._abi else "has no Landlock switched on"
            raise SandboxUnavailableError(f"this kernel {has}, and version {OLDEST_ABI} is needed (Linux 6.2)")
        able = can_change_users(DAC_READ_SEARCH)
        self.users = UserIds() if able and own_user is not False else None
        self._python = str(interpreter.executable())
        self._host = _host_paths()
        self._program = compiled(confine, restrictions)

    def check_root(self, root: StepRoot) -> None:
        """Checks that the machine's C library can run the root's programs."""
        variables_of(root)

    def launch(
        self, command: Sequence[str], limits: Limits, readable: Readable, fds: Sequence[int], link: int
    ) -> Launch:
        """Wraps `command`, with one folder for all files that it writes."""
        users = self.users
        variables = {} if limits.root is None else variables_of(limits.root)
        with ExitStack() as undo:
            program = os.dup(self._program)
            undo.callback(os.close, program)
            user = None if users is None else users.take()
            if users is not None and user is not None:
                undo.callback(users.give_back, user)
            scratch, layout = scratch_layout(
                readable,
                user,
                None if limits.packages is None else self.place_of(limits.packages),
                variables,
            )
            undo.pop_all()
        paths = {
            **self._host,
            "own": [str(scratch / folder) for folder in ("workspace", "outputs", "shared", "files", "tmp", "code")],
        }
        paths["read"] = [layout.inputs, *([layout.files] if readable.view else [])]
        paths["run"] = [*self._host["run"]]
        if limits.packages is not None:
            paths["run"].append(str(limits.packages.folder))
        if limits.root is not None:
            paths["run"] += [str(limits.root.links), *(str(source) for source, _ in shown(limits.root.folder))]
        if limits.network == "full":
            paths["read"] += [str(path) for path, _ in interpreter.readable_files()]
        options = {
            "fds": list(fds),
            "link": link,
            "scratch": str(scratch),
            "workspace": layout.workspace,
            "paths": paths,
            "abi": self._abi,
            "network": limits.network,
            "user": user,
            # Only for the step: its guard, which is not confined, must load nothing of a root.
            "variables": variables,
            "filter": seccomp.landlock_filter(
                limits.network, own_user=user is not None, scoped_signals=self._abi >= NEWEST_ABI
            ).hex(),
        }
        wrapper = [self._python, *interpreter.FLAGS, f"/proc/self/fd/{program}", json.dumps(options)]
        return Launch(
            argv=[*wrapper, *command],
            environment=replace(layout, root={}).environment(),
            layout=layout,
            processes=None if user is None else PROCESSES,
            scratch=scratch,
            view=readable.view,
            fds=(program,),
            afterwards=None if users is None or user is None else lambda: users.give_back(user),
        )

    def check(self) -> None:
        """Runs the interpreter, and checks that it cannot open a file of the host."""
        script = "try: open('/proc/self/status')\nexcept PermissionError: pass\nelse: raise SystemExit('it opens all')"
        reason = try_out(self, [self._python, *interpreter.FLAGS, "-c", script])
        if reason is not None:
            raise SandboxUnavailableError(f"Landlock does not work here: {reason}")


def _host_paths() -> dict[str, list[str]]:
    """Returns the paths of the host that every step may use, by rights (`restrictions.RIGHTS`)."""
    hidden = set(interpreter.hidden_folders())
    listed: set[Path] = set()
    run = {path for folder in interpreter.readable_folders() for path in _unhidden_parts(folder, hidden, listed)}
    run |= {path for path in map(Path, (*HOST_ALIASES, *HOST_FILES)) if path.exists() and not path.is_symlink()}
    run.add(interpreter.executable())
    return {
        "list": sorted(map(str, listed)),
        "run": sorted(map(str, run)),
        "use": [device for device in DEVICES if Path(device).exists()],
    }


def _unhidden_parts(folder: Path, hidden: set[Path], listed: set[Path]) -> Iterator[Path]:
    """Yields the parts of a folder that hold no hidden folder, for Landlock cannot exclude paths below an allowed one.

    Adds the folders above them to `listed`, because the interpreter finds no module in a folder that it cannot list.
    """
    if folder in hidden:
        return
    if not any(path.is_relative_to(folder) for path in hidden):
        yield folder
        return
    listed.add(folder)
    for part in folder.iterdir():
        if not part.is_symlink():
            yield from _unhidden_parts(part, hidden, listed)
