"""Builds the filter of system calls that every isolated step runs under, as a classic BPF program.

It takes away what no step needs and what the other means of a layer do not cover; it is no list of what is allowed.
"""

import errno
import platform
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from backend.runtime.sandbox.layer import SandboxUnavailableError
from backend.runtime.sandbox.limits import Network

_NEW_NAMESPACES: Final = 0x7E020000
_SET_FILE_FLAGS: Final = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR: the owner may, through a file that is open for reading only."""
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_PACKET, _SOCK_TYPE = 1, 10, 0xF
_NETLINK_ROUTE: Final = 0
_WHOLE: Final = 0xFFFFFFFF


@dataclass(frozen=True)
class _Check:
    """The argument's lower half under a mask must be one of the values, or none of them."""

    argument: int
    values: tuple[int, ...]
    mask: int = _WHOLE
    wanted: bool = True


@dataclass(frozen=True)
class _Rule:
    """The call fails with `error` unless all checks hold, else with `then`; 0 does nothing and looks like success.

    Where `alternative` is given, its checks may hold in place of those in `unless`.
    """

    names: str
    error: int = errno.EPERM
    unless: tuple[_Check, ...] = ()
    then: int | None = None
    alternative: tuple[_Check, ...] = ()


_KERNEL: Final = (
    # Other processes.
    _Rule("ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd"),
    _Rule("prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr", unless=(_Check(0, (0,)),)),
    _Rule("setpriority", unless=(_Check(0, (0,)), _Check(1, (0,)))),
    _Rule("ioprio_set", unless=(_Check(0, (1,)), _Check(1, (0,)))),
    # Namespaces and file systems. C libraries fall back to clone, whose flags can be seen.
    _Rule("clone3", errno.ENOSYS),
    _Rule("clone", unless=(_Check(0, (0,), _NEW_NAMESPACES),)),
    _Rule("unshare setns mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount"),
    _Rule("fspick mount_setattr swapon swapoff quotactl quotactl_fd open_by_handle_at name_to_handle_at"),
    # Memory that belongs to no process and so counts for none.
    _Rule("memfd_create memfd_secret", errno.ENOSYS),
    _Rule("shmget shmat shmctl semget msgget mq_open"),
    # The kernel's large or privileged surfaces.
    _Rule("bpf perf_event_open userfaultfd add_key request_key keyctl fanotify_init syslog acct personality"),
    _Rule("io_uring_setup io_uring_enter io_uring_register", errno.ENOSYS),
    _Rule("init_module finit_module delete_module kexec_load kexec_file_load reboot sethostname setdomainname"),
    _Rule("settimeofday clock_settime clock_adjtime adjtimex iopl ioperm modify_ldt vhangup"),
)

_STREAM_PAIRS: Final = _Rule(
    "socketpair", errno.EACCES, (_Check(0, (_AF_UNIX,)), _Check(1, (_SOCK_STREAM,), _SOCK_TYPE))
)
"""A pair of datagram sockets could send to any name, so a pair is one of streams."""

_NO_SOCKETS: Final = (
    _Rule("socket connect bind listen accept accept4", errno.EACCES),
    _STREAM_PAIRS,
)


def _sockets(*families: int) -> _Rule:
    """Sockets of these families only, and of netlink what lists addresses and routes, as name resolution does.

    A family such as AF_VSOCK belongs to no network namespace. SOCK_PACKET turns an internet socket into AF_PACKET.
    """
    return _Rule(
        "socket",
        errno.EACCES,
        (_Check(0, families), _Check(1, (_SOCK_PACKET,), _SOCK_TYPE, wanted=False)),
        alternative=(_Check(0, (_AF_NETLINK,)), _Check(2, (_NETLINK_ROUTE,))),
    )


_OWN_NETWORK_SOCKETS: Final = (
    _sockets(_AF_UNIX, _AF_INET, _AF_INET6),
    _Rule("socketpair", errno.EACCES, (_Check(0, (_AF_UNIX,)),)),
)
"""In a network namespace of its own a step reaches nothing by these."""

_INTERNET_SOCKETS: Final = (_sockets(_AF_INET, _AF_INET6), _STREAM_PAIRS)
"""The machine's services on Unix sockets are not part of the network."""

# Landlock does not look at these: they work on every file that the step's user may write, or see the names of. Programs
# that set a file's time to now make the file when that fails.
_NO_ATTRIBUTES: Final = (
    _Rule("inotify_init inotify_init1 inotify_add_watch", errno.ENOSYS),
    _Rule("setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat", errno.ENOTSUP),
    _Rule("file_setattr", errno.ENOTSUP),
)
_NOT_NOW: Final = (
    _Rule("utime utimes", unless=(_Check(1, (0,), wanted=False),)),
    _Rule("utimensat futimesat", unless=(_Check(2, (0,), wanted=False),)),
)

# Nor at these, and a user who is not the step's own has more than the step's files. Programs that copy files expect
# success.
_SHARED_USER: Final = (
    _Rule("chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat", 0),
    _Rule("utime utimes", 0, (_Check(1, (0,)),), errno.EPERM),
    _Rule("utimensat futimesat", 0, (_Check(2, (0,)),), errno.EPERM),
    _Rule("ioctl", unless=(_Check(1, _SET_FILE_FLAGS, wanted=False),)),
)
_NO_SIGNALS: Final = (_Rule("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"),)


def namespace_filter(network: Network) -> bytes:
    """The filter for a step in namespaces of its own; the network's is its own too unless `network` is full."""
    return _assemble((*_KERNEL, *(_INTERNET_SOCKETS if network == "full" else _OWN_NETWORK_SOCKETS)))


def landlock_filter(network: Network, *, own_user: bool, scoped_signals: bool) -> bytes:
    """The filter for a step that Landlock holds, which shares what namespaces would keep apart.

    Without a user of its own the step shares the service's: it may then change no file's mode, owner or times, and
    sends no signals where Landlock does not hold those back.
    """
    rules = [*_KERNEL, *_NO_ATTRIBUTES, *(_INTERNET_SOCKETS if network == "full" else _NO_SOCKETS)]
    rules += _NOT_NOW if own_user else _SHARED_USER
    if not own_user and not scoped_signals:
        rules += _NO_SIGNALS
    return _assemble(rules)


_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_KILL, _FAIL, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_ARCHITECTURE, _ARGUMENTS = 4, 16
_OTHER_ABI: Final = 0x40000000
"""x86-64 has a second numbering of its calls from here on."""


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _assemble(rules: Iterable[_Rule]) -> bytes:
    machine = platform.machine()
    if machine not in _MACHINES:
        raise SandboxUnavailableError(f"there is no filter of system calls for {machine} processors")
    audit, column = _MACHINES[machine]
    numbers = _numbers(column)
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, audit, yes=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, 0),
        _instruction(_AT_LEAST, _OTHER_ABI, no=1),
        _instruction(_RETURN, _FAIL | errno.ENOSYS),
    ]
    for rule in rules:
        body = _body(rule)
        for name in rule.names.split():
            if name in numbers:
                program += [_instruction(_EQUAL, numbers[name], no=len(body)), *body]
    return b"".join([*program, _instruction(_RETURN, _ALLOW)])


def _body(rule: _Rule) -> list[bytes]:
    body = [_instruction(_RETURN, _FAIL | rule.error)]
    for checks in (rule.alternative, rule.unless):
        if checks:
            body = [*_unless(checks, _ALLOW if rule.then is None else _FAIL | rule.then), *body]
    return body


def _unless(checks: Iterable[_Check], verdict: int) -> list[bytes]:
    """Return the verdict if all checks hold, else go on behind these instructions."""
    program = [_instruction(_RETURN, verdict)]
    for check in reversed(list(checks)):
        beyond, last = len(program), len(check.values) - 1
        tests = []
        for place, value in enumerate(check.values):
            if check.wanted:
                tests.append(_instruction(_EQUAL, value, yes=last - place, no=beyond if place == last else 0))
            else:
                tests.append(_instruction(_EQUAL, value, yes=last - place + beyond))
        load = [_instruction(_LOAD, _ARGUMENTS + 8 * check.argument), _instruction(_AND, check.mask)]
        program = [*load, *tests, *program]
    return program


def _numbers(column: int) -> Mapping[str, int]:
    table = dict(_NEWER_CALLS)
    for line in _CALLS.split():
        name, *by_machine = line.split(":")
        if by_machine[column]:
            table[name] = int(by_machine[column])
    return table


_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

_NEWER_CALLS: Final = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469,
    "pidfd_send_signal": 424,
}  # fmt: skip
"""Calls that have one number on every processor."""

_CALLS: Final = """
accept4:288:242 accept:43:202 acct:163:89 add_key:248:217 adjtimex:159:171 bind:49:200 bpf:321:280 chmod:90:
chown:92: chroot:161:51 clock_adjtime:305:266 clock_settime:227:112 clone:56:220 connect:42:203 delete_module:176:106
fanotify_init:300:262 fchmod:91:52 fchmodat:268:53 fchown:93:55 fchownat:260:54 finit_module:313:273
fremovexattr:199:16 fsetxattr:190:7 futimesat:261: init_module:175:105 inotify_add_watch:254:27 inotify_init1:294:26
inotify_init:253: ioctl:16:29 ioperm:173: iopl:172: ioprio_set:251:30 kcmp:312:272 kexec_file_load:320:294
kexec_load:246:104 keyctl:250:219 kill:62:129 lchown:94: listen:50:201 lremovexattr:198:15 lsetxattr:189:6
memfd_create:319:279 modify_ldt:154: mount:165:40 mq_open:240:180 msgget:68:186 name_to_handle_at:303:264
open_by_handle_at:304:265 perf_event_open:298:241 personality:135:92 pivot_root:155:41 prlimit64:302:261
process_vm_readv:310:270 process_vm_writev:311:271 ptrace:101:117 quotactl:179:60 reboot:169:142 removexattr:197:14
request_key:249:218 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 sched_setaffinity:203:122 sched_setattr:314:274
sched_setparam:142:118 sched_setscheduler:144:119 semget:64:190 setdomainname:171:162 sethostname:170:161
setns:308:268 setpriority:141:140 settimeofday:164:170 setxattr:188:5 shmat:30:196 shmctl:31:195 shmget:29:194
socket:41:198 socketpair:53:199 swapoff:168:225 swapon:167:224 syslog:103:116 tgkill:234:131 tkill:200:130
umount2:166:39 unshare:272:97 userfaultfd:323:282 utime:132: utimensat:280:88 utimes:235: vhangup:153:58
"""
"""The others by name, with their numbers on x86-64 and on AArch64."""
