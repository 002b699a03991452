import subprocess
from collections.abc import Sequence
from pathlib import Path

from backend.runtime.sandbox import interpreter
from backend.runtime.sandbox.layer import Launch, Layer, Layout, SandboxUnavailableError, require
from backend.runtime.sandbox.limits import MEBIBYTE, Limits

LAYOUT = Layout(workspace="/step/workspace", outputs="/step/outputs", inputs="/inputs", temporary="/step/tmp")
HOST_ALIASES = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
HOST_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PROCESSES = 256
"""Counted in the step's own user namespace. The kernel exempts root, whose steps only memory and time bound."""
CHECK_SECONDS = 20
CHECK_LIMITS = Limits(memory_mb=256, timeout_seconds=CHECK_SECONDS, workspace_mb=1)


class Bubblewrap(Layer):
    """Namespaces of its own for everything, no network, an empty root, and one tmpfs for all that a step writes."""

    name = "bwrap"
    namespaced = True

    def __init__(self) -> None:
        self._program = require("bwrap")
        self._python = interpreter.executable()
        self._without_user_namespaces = True
        self._host = _host_view(self._python)

    def launch(self, command: Sequence[str], limits: Limits, inputs: Path | None, info_fd: int | None) -> Launch:
        """Wrap `command`; every writable path lies in one tmpfs of `workspace_mb`, also /tmp and /dev/shm."""
        argv = [self._program, "--unshare-all", "--unshare-user"]
        if self._without_user_namespaces:
            argv.append("--disable-userns")
        # Root keeps all capabilities unless told otherwise.
        argv += ["--die-with-parent", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "step"]
        if info_fd is not None:
            argv += ["--info-fd", str(info_fd)]
        argv += self._host
        argv += ["--dir", LAYOUT.inputs] if inputs is None else ["--ro-bind", str(inputs), LAYOUT.inputs]
        argv += ["--size", str(limits.workspace_bytes), "--tmpfs", "/step"]
        for folder in (LAYOUT.workspace, LAYOUT.outputs, LAYOUT.temporary, "/step/shm"):
            argv += ["--dir", folder]
        argv += ["--symlink", LAYOUT.temporary, "/tmp", "--symlink", "/step/shm", "/dev/shm"]  # noqa: S108 - inside the sandbox
        argv += ["--remount-ro", "/", "--chdir", LAYOUT.workspace, "--", *command]
        return Launch(argv=argv, environment=LAYOUT.environment(), layout=LAYOUT, processes=PROCESSES)

    def check(self) -> None:
        """Run the interpreter in the sandbox, with nested user namespaces forbidden where that works."""
        for forbid in (True, False):
            self._without_user_namespaces = forbid
            command = [str(self._python), *interpreter.FLAGS, "-c", "pass"]
            launch = self.launch(command, CHECK_LIMITS, None, None)
            try:
                tried = subprocess.run(
                    launch.argv,
                    env=launch.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=CHECK_SECONDS,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise SandboxUnavailableError(f"bubblewrap does not run here: {error}") from error
            if tried.returncode == 0:
                return
        reason = tried.stderr.decode(errors="replace").strip()[:500]
        raise SandboxUnavailableError(f"bubblewrap does not work here: {reason}")


def _host_view(python: Path) -> list[str]:
    argv: list[str] = []
    for folder in interpreter.readable_folders():
        argv += ["--ro-bind", str(folder), str(folder)]
    if not python.is_relative_to("/usr/bin"):
        argv += ["--ro-bind", str(python), str(python)]
    for folder in interpreter.hidden_folders():
        argv += ["--size", str(MEBIBYTE), "--tmpfs", str(folder), "--remount-ro", str(folder)]
    for alias in map(Path, HOST_ALIASES):
        if alias.is_symlink():
            argv += ["--symlink", str(alias.readlink()), str(alias)]
        elif alias.is_dir():
            argv += ["--ro-bind", str(alias), str(alias)]
    for file in HOST_FILES:
        argv += ["--ro-bind-try", file, file]
    # Read-only, because the kernel's settings under /proc/sys belong to the host: a service that runs as root owns
    # them, and so does its step, even without a capability.
    argv += ["--proc", "/proc", "--remount-ro", "/proc"]
    for device in DEVICES:
        argv += ["--dev-bind", device, device]
    return [*argv, "--symlink", "/proc/self/fd", "/dev/fd"]
