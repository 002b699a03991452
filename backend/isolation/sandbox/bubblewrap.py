"""The strongest layer: bubblewrap runs each step in its own namespaces and root folder."""

import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from backend.isolation.sandbox import interpreter, seccomp
from backend.isolation.sandbox.host_libraries import host_libraries
from backend.isolation.sandbox.interpreter import memory_file
from backend.isolation.sandbox.layer import (
    SYS_ADMIN,
    Launch,
    Layer,
    Layout,
    Readable,
    SandboxUnavailableError,
    TemplateLaunch,
    UserIds,
    can_change_users,
    make_readable_for_all,
    require,
    try_out,
)
from backend.isolation.sandbox.limits import MEBIBYTE, PROCESSES, Limits, Network, StepPackages, StepRoot
from backend.isolation.sandbox.root_view import aliases, shown

LAYOUT = Layout(
    workspace="/step/workspace",
    outputs="/step/outputs",
    shared="/step/shared",
    inputs="/inputs",
    files="/step/files",
    temporary="/step/tmp",
    code="/step/code",
)
FOLDERS: Final = (
    LAYOUT.workspace,
    LAYOUT.outputs,
    LAYOUT.shared,
    LAYOUT.files,
    LAYOUT.temporary,
    LAYOUT.code,
    "/step/shm",
)
PACKAGES: Final = "/packages"
HOST_ALIASES = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
HOST_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
INTERPRETER: Final = Path("/interpreter")
"""Folder of the machine's interpreter in a sandbox with the `/usr` of a root."""
NETWORKS: Final[tuple[Network, ...]] = ("none", "full")

NAMESPACES: Final = ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
# Capabilities by which root changes to another user, losing them; by default root would keep all.
CAPABILITIES: Final = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
OWN_USER: Final = ("--cap-drop", "ALL", *(word for name in CAPABILITIES for word in ("--cap-add", name)))
BECOME: Final = ("/usr/bin/setpriv", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
NESTABLE_USER_NAMESPACE: Final = ("--unshare-user", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000")
ORDINARY_USER: Final = 1000
USER_NAMESPACE: Final = (*NESTABLE_USER_NAMESPACE, "--disable-userns")
# A template makes its own user namespace, and maps users there.
TEMPLATE_CAPABILITIES: Final = (*CAPABILITIES, "CAP_SYS_ADMIN")
_HELD: Final = tuple(word for name in TEMPLATE_CAPABILITIES for word in ("--cap-add", name))
TEMPLATE_OWN_USERS: Final = ("--cap-drop", "ALL", *_HELD)
TEMPLATE_USER_NAMESPACE: Final = (*NESTABLE_USER_NAMESPACE, *_HELD)

_CERTIFICATES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
"""Files of the host with the trusted authorities, which the machine's interpreter would look for in the root."""
_LOOKUPS: Final = Path("/etc/nsswitch.conf")
_LOOKUPS_OF_ROOT: Final = b"passwd: files\ngroup: files\nhosts: files dns\n"
"""Modules within glibc alone: `setpriv` looks its user up, and would load those that the host names from the root."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Bubblewrap(Layer):
    """Layer with new namespaces of every kind, an empty root, and one tmpfs for all files that a step writes.

    Under root each step runs as its own user of the machine, whose processes the kernel limits. Otherwise it runs in a
    user namespace, in which the kernel counts them.
    """

    name = "bwrap"
    guarded = "namespace"

    def __init__(self, *, own_user: bool = True) -> None:
        self._program = require("bwrap")
        self._python = interpreter.executable()
        self._host = [*_host_view(self._python), *_devices()]
        self._filters: dict[Network, int] = {
            choice: memory_file("filter", seccomp.namespace_filter(choice)) for choice in NETWORKS
        }
        # The kernel then kills steps first when the machine runs out of memory.
        choom = shutil.which("choom")
        self._wrapper = [choom, "-n", "1000", "--"] if choom else []
        self.users = UserIds()
        own = (OWN_USER,) if own_user and can_change_users(SYS_ADMIN) else ()
        self._ways = (*own, USER_NAMESPACE, NESTABLE_USER_NAMESPACE)
        self._user = self._ways[0]

    @property
    def own_user(self) -> bool:
        """Returns whether each step runs as its own user of the machine."""
        return self._user is OWN_USER

    def make_readable(self, readable: Readable) -> Readable:
        """Makes the folders, which are mounted, readable for all users if steps have users of their own."""
        if self.own_user:
            for folder in (*([readable.inputs] if readable.inputs else ()), *readable.files.values()):
                make_readable_for_all(folder)
        return readable

    def place_of(self, packages: StepPackages) -> str:  # noqa: ARG002 - one path for all packages
        """Returns the path of the packages, which tells nothing of the host."""
        return PACKAGES

    def check_root(self, root: StepRoot) -> None:  # noqa: ARG002 - every root works here
        """Checks that the machine's interpreter can bring its libraries along."""
        host_libraries()

    def launch(
        self,
        command: Sequence[str],
        limits: Limits,
        readable: Readable,
        fds: Sequence[int],  # noqa: ARG002 - bubblewrap passes all open descriptors on
        link: int,
    ) -> Launch:
        """Wraps `command`; every writable path, /tmp and /dev/shm too, is in one tmpfs of `workspace_mb`."""
        with ExitStack() as undo:
            # The filter is opened anew, for an offset of its own: each bubblewrap reads from the beginning.
            filter_fd = os.open(f"/proc/self/fd/{self._filters[limits.network]}", os.O_RDONLY)
            undo.callback(os.close, filter_fd)
            added = {} if limits.root is None else _files_of_root()
            for fd in added.values():
                undo.callback(os.close, fd)
            user = self.users.take() if self.own_user else None
            undo.pop_all()
        argv = [*self._wrapper, self._program, *NAMESPACES, "--die-with-parent", "--hostname", "step"]
        argv += ["--info-fd", str(link), "--seccomp", str(filter_fd), *self._user]
        # Read-only, because the kernel's settings in /proc/sys belong to the host and are owned by root, which a step
        # may be, even without capabilities.
        argv += [*self._root(limits), "--proc", "/proc", "--remount-ro", "/proc"]
        for path, fd in added.items():
            argv += ["--perms", "0555", "--file", str(fd), str(path)]
        layout = replace(
            LAYOUT,
            packages=None if limits.packages is None else self.place_of(limits.packages),
            root={} if limits.root is None else _root_variables(limits.network),
        )
        argv += ["--dir", LAYOUT.inputs] if readable.inputs is None else _read_only(readable.inputs, LAYOUT.inputs)
        argv += ["--size", str(limits.workspace_bytes), "--perms", "0777", "--tmpfs", "/step"]
        for folder in FOLDERS:
            argv += ["--perms", "0777", "--dir", folder]
        for step, files in readable.files.items():
            argv += _read_only(files, f"{LAYOUT.files}/{step}")
        argv += ["--remount-ro", "/", "--chdir", LAYOUT.workspace, "--"]
        environment = layout.environment()
        if user is not None:
            become = [*BECOME, f"--reuid={user}", f"--regid={user}", "--"]
            if limits.root is not None:
                # `setpriv` has capabilities, so it must not even load a locale of the root.
                own = [*_loaded(), str(INTERPRETER / "bin" / "env"), f"LANG={environment.pop('LANG')}"]
                become = [*_loaded(), str(INTERPRETER / "bin" / "setpriv"), *become[1:], *own]
            argv += become
        return Launch(
            argv=[*argv, *command],
            environment=environment,
            layout=layout,
            processes=PROCESSES,
            fds=(filter_fd, *added.values()),
            afterwards=None if user is None else lambda: self.users.give_back(user),
        )

    def launch_template(self, limits: Limits) -> TemplateLaunch | None:
        """Returns a template with capabilities over its own namespaces, in the root folder of steps of these limits.

        None for a service that is root but cannot become other users: preloaded modules would run as root. None for a
        root too: a template has capabilities, with which it must load nothing that came with an image.
        """
        own_users = self.own_user
        if limits.root is not None:
            return None
        if not own_users and os.geteuid() == 0 and limits.preloads:
            return None
        argv = [*self._wrapper, self._program, *NAMESPACES, "--die-with-parent", "--hostname", "step"]
        argv += TEMPLATE_OWN_USERS if own_users else TEMPLATE_USER_NAMESPACE
        layout = replace(LAYOUT, packages=None if limits.packages is None else self.place_of(limits.packages))
        argv += [*self._root(limits), "--proc", "/proc", "--dir", LAYOUT.inputs, "--dir", "/step"]
        argv += ["--remount-ro", "/", "--chdir", "/", "--"]
        user = self.users.take() if own_users else ORDINARY_USER
        return TemplateLaunch(
            Launch(
                argv=argv,
                environment=layout.environment(),
                layout=layout,
                processes=PROCESSES,
                afterwards=(lambda: self.users.give_back(user)) if own_users else None,
            ),
            {
                "own_users": own_users,
                "user": user,
                "users": self.users.range if own_users else (user, 1),
                "own_network": limits.network == "none",
                "folders": FOLDERS,
                "workspace": LAYOUT.workspace,
                "filter": seccomp.forked_filter(),
                "template_filter": seccomp.template_filter(limits.network),
            },
            self.users.take if own_users else lambda: ORDINARY_USER,
            self.users.give_back if own_users else lambda _: None,
        )

    def _root(self, limits: Limits) -> list[str]:
        """Returns the options for the part of the host that steps of these limits see."""
        argv = [*self._host] if limits.root is None else [*_view_of(limits.root.folder, self._python), *_devices()]
        if limits.network == "none":
            argv.append("--unshare-net")
        else:
            for host, path in interpreter.readable_files():
                # Below the read-only `/usr` of a root nothing can be mounted.
                if limits.root is None or not (path.startswith("/usr/") or path == str(_LOOKUPS)):
                    argv += ["--ro-bind", str(host), path]
        if limits.packages is not None:
            argv += _read_only(limits.packages.folder, PACKAGES)
        return [*argv, "--symlink", LAYOUT.temporary, "/tmp", "--symlink", "/step/shm", "/dev/shm"]  # noqa: S108 - inside the sandbox

    def command_of(self, python: Path, limits: Limits) -> Sequence[str]:
        """Returns the command of the interpreter; with a root it brings its own loader and libraries along."""
        if limits.root is None:
            return [str(python)]
        folder = INTERPRETER / "bin"
        return [*_loaded(), "--argv0", str(folder / "python3"), str(folder / python.name)]

    def check(self) -> None:
        """Runs the interpreter in the sandbox, and selects the strongest user separation that works."""
        reason: str | None = None
        for way in self._ways:
            self._user = way
            reason = try_out(self, [str(self._python), *interpreter.FLAGS, "-c", "pass"])
            if reason is None:
                return
        raise SandboxUnavailableError(f"bubblewrap does not work here: {reason}")


def _read_only(folder: Path, place: str) -> list[str]:
    return ["--ro-bind", str(folder), place]


def _host_view(python: Path) -> list[str]:
    argv: list[str] = []
    # Created here, because bubblewrap would create them with the mode of the path that is bound below.
    bound = [python, *interpreter.readable_folders(), *map(Path, (*HOST_FILES, *DEVICES))]
    bound += [_LOOKUPS, *(Path(path) for _, path in interpreter.readable_files())]
    for parent in sorted({parent for path in bound for parent in path.parents}):
        argv += ["--perms", "0755", "--dir", str(parent)]
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
    return argv


def _devices() -> list[str]:
    argv = [word for device in DEVICES for word in ("--dev-bind", device, device)]
    return [*argv, "--symlink", "/proc/self/fd", "/dev/fd"]


def _view_of(root: Path, python: Path) -> list[str]:
    """Returns the options for a root, and for the machine's interpreter beside it."""
    own = host_libraries()
    files = {INTERPRETER / "loader": own.loader, INTERPRETER / "bin" / python.name: python}
    files |= {INTERPRETER / "bin" / name: program for name, program in own.programs.items()}
    files |= {INTERPRETER / "shared" / name: library for name, library in own.libraries.items()}
    modules = {INTERPRETER / folder.relative_to(interpreter.BASE): folder for folder in interpreter.modules()}
    bound = [*(Path(place) for _, place in shown(root)), *files, *modules, *map(Path, DEVICES)]
    bound += [_LOOKUPS, *(Path(path) for _, path in interpreter.readable_files())]
    argv: list[str] = []
    for parent in sorted({parent for path in bound for parent in path.parents}):
        if not parent.is_relative_to("/usr"):
            argv += ["--perms", "0755", "--dir", str(parent)]
    for source, place in shown(root):
        argv += ["--ro-bind", str(source), place]
    for target, alias in aliases(root):
        argv += ["--symlink", target, alias]
    for inner, folder in modules.items():
        argv += ["--ro-bind", str(folder), str(inner)]
        for hidden in interpreter.installed_packages(folder):
            inside = str(inner / hidden.relative_to(folder))
            argv += ["--size", str(MEBIBYTE), "--tmpfs", inside, "--remount-ro", inside]
    for inner, file in files.items():
        argv += ["--ro-bind", os.path.realpath(file), str(inner)]
    return argv


def _loaded() -> list[str]:
    """Returns the start of a command that runs with the machine's libraries, whatever the root has."""
    return [str(INTERPRETER / "loader"), "--library-path", str(INTERPRETER / "shared")]


def _root_variables(network: Network) -> dict[str, str]:
    variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    trusted = next((path for path in _CERTIFICATES if Path(path).is_file()), None)
    if network == "full" and trusted is not None:
        variables["SSL_CERT_FILE"] = trusted
    return variables


def _files_of_root() -> dict[Path, int]:
    """Opens the files that a sandbox with a root has beside those of the root, by path."""
    with ExitStack() as undo:
        files: dict[Path, int] = {}
        for path, content in {INTERPRETER / "bin" / "python3": _script(), _LOOKUPS: _LOOKUPS_OF_ROOT}.items():
            files[path] = fd = memory_file(path.name, content)
            undo.callback(os.close, fd)
            os.lseek(fd, 0, os.SEEK_SET)
        undo.pop_all()
    return files


def _script() -> bytes:
    """Returns the program that `sys.executable` names: a child started as such needs the machine's libraries too."""
    program = INTERPRETER / "bin" / interpreter.executable().name
    command = shlex.join([*_loaded(), "--argv0", str(INTERPRETER / "bin" / "python3"), str(program)])
    return f'#!/bin/sh\nexec {command} "$@"\n'.encode()
