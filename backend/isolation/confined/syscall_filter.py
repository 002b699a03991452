"""Filters of system calls: rules that several programs share, assembled as classic BPF programs."""

import errno
import platform
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_ALL_BITS: Final = 0xFFFFFFFF


class UnsupportedProcessorError(Exception):
    """No table of system calls exists for this machine's processor."""


@dataclass(frozen=True)
class ArgumentCheck:
    """Condition on a call: the masked lower half of an argument is one of the values, or none of them."""

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL_BITS
    wanted: bool = True


@dataclass(frozen=True)
class SyscallRule:
    """A refused call, which fails with `error`.

    If all checks of `unless`, or all of `alternative`, hold, the call fails with `then` instead, and None allows it. An
    error of 0 makes the call do nothing and return success.
    """

    names: str
    error: int = errno.EPERM
    unless: tuple[ArgumentCheck, ...] = ()
    then: int | None = None
    alternative: tuple[ArgumentCheck, ...] = ()


_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_KILL, _FAIL, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_ARCHITECTURE, _ARGUMENTS = 4, 16
_OTHER_ABI: Final = 0x40000000
"""The first number of the second numbering of calls on x86-64 (the x32 ABI)."""


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def assemble(rules: Iterable[SyscallRule]) -> bytes:
    """Assembles the filter for this processor: the first rule that names a call decides, and other calls are allowed.

    Raises:
        UnsupportedProcessorError: the processor is neither x86-64 nor AArch64.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise UnsupportedProcessorError(f"there is no filter of system calls for {machine} processors")
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


def _body(rule: SyscallRule) -> list[bytes]:
    body = [_instruction(_RETURN, _FAIL | rule.error)]
    for checks in (rule.alternative, rule.unless):
        if checks:
            body = [*_unless(checks, _ALLOW if rule.then is None else _FAIL | rule.then), *body]
    return body


def _unless(checks: Iterable[ArgumentCheck], verdict: int) -> list[bytes]:
    """Assembles instructions that return the verdict if all checks hold, and otherwise continue after them."""
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
    "pidfd_send_signal": 424, "cachestat": 451,
}  # fmt: skip
"""Calls with the same number on every processor."""

_CALLS: Final = """
accept4:288:242 accept:43:202 acct:163:89 add_key:248:217 adjtimex:159:171 bind:49:200 bpf:321:280 chmod:90:
chown:92: chroot:161:51 clock_adjtime:305:266 clock_settime:227:112 clone:56:220 connect:42:203 delete_module:176:106
execve:59:221 execveat:322:281 fcntl:72:25 fork:57: madvise:28:233 mincore:27:232 preadv2:327:286
setrlimit:160:164 vfork:58: fadvise64:221:223 fanotify_init:300:262 fanotify_mark:301:263
fchmod:91:52 fchmodat:268:53 fchown:93:55 fchownat:260:54 finit_module:313:273
fremovexattr:199:16 fsetxattr:190:7 futimesat:261: init_module:175:105 inotify_add_watch:254:27 inotify_init1:294:26
inotify_init:253: ioctl:16:29 ioperm:173: iopl:172: ioprio_set:251:30 kcmp:312:272 kexec_file_load:320:294
kexec_load:246:104 keyctl:250:219 kill:62:129 lchown:94: listen:50:201 lremovexattr:198:15 lsetxattr:189:6
memfd_create:319:279 modify_ldt:154: mount:165:40 mq_open:240:180 msgget:68:186 name_to_handle_at:303:264
open_by_handle_at:304:265 perf_event_open:298:241 personality:135:92 pivot_root:155:41 prlimit64:302:261
process_vm_readv:310:270 process_vm_writev:311:271 ptrace:101:117 quotactl:179:60 reboot:169:142 removexattr:197:14
request_key:249:218 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 sched_setaffinity:203:122 sched_setattr:314:274
sched_setparam:142:118 sched_setscheduler:144:119 semget:64:190 setdomainname:171:162 sethostname:170:161
setns:308:268 setpriority:141:140 setsockopt:54:208 settimeofday:164:170 setxattr:188:5 shmat:30:196 shmctl:31:195
shmget:29:194 socket:41:198 socketpair:53:199 swapoff:168:225 swapon:167:224 syslog:103:116 tgkill:234:131 tkill:200:130
umount2:166:39 unshare:272:97 userfaultfd:323:282 utime:132: utimensat:280:88 utimes:235: vhangup:153:58
"""
"""Other calls, each as name, number on x86-64 and number on AArch64."""


NEW_NAMESPACES: Final = 0x7E020000
_SET_LEASE, _NOTIFY, _SET_DELEGATION = 1024, 1026, 1040
_ONLY_FROM_CACHE, _DROP_FROM_CACHE, _PAGE_OUT = 0x8, 4, 21
"""RWF_NOWAIT, POSIX_FADV_DONTNEED and MADV_PAGEOUT."""
_SET_FILE_FLAGS: Final = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR, which the owner may use on a file that is open for reading only."""

KERNEL: Final = (
    # Other processes.
    SyscallRule("ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd"),
    SyscallRule(
        "prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr", unless=(ArgumentCheck(0, (0,)),)
    ),
    SyscallRule("setpriority", unless=(ArgumentCheck(0, (0,)), ArgumentCheck(1, (0,)))),
    SyscallRule("ioprio_set", unless=(ArgumentCheck(0, (1,)), ArgumentCheck(1, (0,)))),
    # Namespaces and file systems. C libraries fall back to clone, whose flags can be seen.
    SyscallRule("clone3", errno.ENOSYS),
    SyscallRule("clone", unless=(ArgumentCheck(0, (0,), NEW_NAMESPACES),)),
    SyscallRule(
        "unshare setns mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount"
    ),
    SyscallRule("fspick mount_setattr swapon swapoff quotactl quotactl_fd open_by_handle_at name_to_handle_at"),
    # Calls that show which shared files others open or read: notifications, leases, pages in the cache.
    SyscallRule("inotify_init inotify_init1 inotify_add_watch", errno.ENOSYS),
    SyscallRule("fcntl", unless=(ArgumentCheck(1, (_SET_LEASE, _NOTIFY, _SET_DELEGATION), wanted=False),)),
    SyscallRule("mincore cachestat", errno.ENOSYS),
    SyscallRule("preadv2", errno.EOPNOTSUPP, (ArgumentCheck(5, (0,), _ONLY_FROM_CACHE),)),
    # Calls that only advise the kernel: programs work without them.
    SyscallRule("fadvise64", 0, (ArgumentCheck(3, (_DROP_FROM_CACHE,), wanted=False),)),
    SyscallRule("madvise", errno.EINVAL, (ArgumentCheck(2, (_PAGE_OUT,), wanted=False),)),
    # Memory that belongs to no process, so no limit of a process counts it.
    SyscallRule("memfd_create memfd_secret", errno.ENOSYS),
    SyscallRule("shmget shmat shmctl semget msgget mq_open"),
    # Large or privileged interfaces of the kernel.
    SyscallRule("bpf perf_event_open userfaultfd add_key request_key keyctl syslog acct personality"),
    SyscallRule("fanotify_init fanotify_mark"),
    SyscallRule("io_uring_setup io_uring_enter io_uring_register", errno.ENOSYS),
    SyscallRule("init_module finit_module delete_module kexec_load kexec_file_load reboot sethostname setdomainname"),
    SyscallRule("settimeofday clock_settime clock_adjtime adjtimex iopl ioperm modify_ldt vhangup"),
)

# Landlock does not restrict these: they work on every file that the process's user may write or list.
NO_ATTRIBUTES: Final = (
    SyscallRule(
        "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat", errno.ENOTSUP
    ),
    SyscallRule("file_setattr", errno.ENOTSUP),
)

# Landlock does not restrict these either, and a user shared with other processes owns more than this process's files.
# Programs that copy files expect success.
SHARED_USER: Final = (
    SyscallRule("chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat", 0),
    SyscallRule("utime utimes", 0, (ArgumentCheck(1, (0,)),), errno.EPERM),
    SyscallRule("utimensat futimesat", 0, (ArgumentCheck(2, (0,)),), errno.EPERM),
    SyscallRule("ioctl", unless=(ArgumentCheck(1, _SET_FILE_FLAGS, wanted=False),)),
)
NO_SIGNALS: Final = (SyscallRule("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"),)

_CLONE_THREAD: Final = 0x10000
_AF_UNIX, _AF_INET, _AF_INET6, _SOCK_STREAM = 1, 2, 10, 1
_NO_SOCKETS: Final = (SyscallRule("socket socketpair connect bind listen accept accept4", errno.EACCES),)
_CLIENT_SOCKETS: Final = (
    SyscallRule("socket", errno.EACCES, (ArgumentCheck(0, (_AF_INET, _AF_INET6)),)),
    SyscallRule("socketpair", errno.EACCES, (ArgumentCheck(0, (_AF_UNIX,)), ArgumentCheck(1, (_SOCK_STREAM,), 0xF))),
    SyscallRule("listen accept accept4", errno.EACCES),
)
_PAIRS: Final = SyscallRule("socketpair", errno.EACCES, (ArgumentCheck(0, (_AF_UNIX,)),))
_PROGRAM_ALONE: Final = (SyscallRule("socket connect bind listen accept accept4", errno.EACCES), _PAIRS)
# Resolvers of names ask the kernel for its addresses by netlink, and get on without the answer.
_PROGRAM_CLIENT: Final = (
    SyscallRule("socket", errno.EACCES, (ArgumentCheck(0, (_AF_INET, _AF_INET6)),)),
    SyscallRule("listen accept accept4", errno.EACCES),
    _PAIRS,
)
# The process starts no other, and keeps its limits.
_ONE_PROCESS: Final = (
    SyscallRule("execve execveat fork vfork setrlimit"),
    SyscallRule(
        "clone", unless=(ArgumentCheck(0, (_CLONE_THREAD,), _CLONE_THREAD), ArgumentCheck(0, (0,), NEW_NAMESPACES))
    ),
    SyscallRule("prlimit64", unless=(ArgumentCheck(0, (0,)), ArgumentCheck(2, (0,)))),
)


def confined_process_rules(*, network: bool) -> tuple[SyscallRule, ...]:
    """Returns the rules of a confined process, which starts no process and, without `network`, opens no socket."""
    sockets = _CLIENT_SOCKETS if network else _NO_SOCKETS
    return (*sockets, *_ONE_PROCESS, *KERNEL, *NO_ATTRIBUTES, *SHARED_USER, *NO_SIGNALS)


def program_rules(*, network: bool) -> tuple[SyscallRule, ...]:
    """Returns the rules of a program with processes of its own; without `network` it opens only local pairs."""
    sockets = _PROGRAM_CLIENT if network else _PROGRAM_ALONE
    return (*sockets, *KERNEL, *NO_ATTRIBUTES)
