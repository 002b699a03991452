"""Assembles filters of system calls as classic BPF programs, from tables of rules."""

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
class Check:
    """Condition on a call: the masked lower half of an argument is one of the values, or none of them."""

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL_BITS
    wanted: bool = True


@dataclass(frozen=True)
class Rule:
    """A refused call: it fails with `error`, or with `then` if all checks of `unless` hold; None allows it then.

    An error of 0 makes the call do nothing and return success. The checks of `alternative` may hold instead of those
    in `unless`.
    """

    names: str
    error: int = errno.EPERM
    unless: tuple[Check, ...] = ()
    then: int | None = None
    alternative: tuple[Check, ...] = ()


_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_KILL, _FAIL, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_ARCHITECTURE, _ARGUMENTS = 4, 16
_OTHER_ABI: Final = 0x40000000
"""The first number of the second numbering of calls on x86-64."""


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def assemble(rules: Iterable[Rule]) -> bytes:
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


def _body(rule: Rule) -> list[bytes]:
    body = [_instruction(_RETURN, _FAIL | rule.error)]
    for checks in (rule.alternative, rule.unless):
        if checks:
            body = [*_unless(checks, _ALLOW if rule.then is None else _FAIL | rule.then), *body]
    return body


def _unless(checks: Iterable[Check], verdict: int) -> list[bytes]:
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
