"""Tables of system calls that are refused to processes with untrusted code or data, for all kinds of confinement.

They refuse calls that no such process needs and that Landlock and namespaces do not restrict; all others are allowed.
"""

import errno
from typing import Final

from backend.confined.bpf import Check, Rule

NEW_NAMESPACES: Final = 0x7E020000
_SET_LEASE, _NOTIFY, _SET_DELEGATION = 1024, 1026, 1040
_ONLY_FROM_CACHE, _DROP_FROM_CACHE, _PAGE_OUT = 0x8, 4, 21
"""RWF_NOWAIT, POSIX_FADV_DONTNEED and MADV_PAGEOUT."""
_SET_FILE_FLAGS: Final = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR, which the owner may use on a file that is open for reading only."""

KERNEL: Final = (
    # Other processes.
    Rule("ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd"),
    Rule("prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr", unless=(Check(0, (0,)),)),
    Rule("setpriority", unless=(Check(0, (0,)), Check(1, (0,)))),
    Rule("ioprio_set", unless=(Check(0, (1,)), Check(1, (0,)))),
    # Namespaces and file systems. C libraries fall back to clone, whose flags can be seen.
    Rule("clone3", errno.ENOSYS),
    Rule("clone", unless=(Check(0, (0,), NEW_NAMESPACES),)),
    Rule("unshare setns mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount"),
    Rule("fspick mount_setattr swapon swapoff quotactl quotactl_fd open_by_handle_at name_to_handle_at"),
    # What others open, where files are shared with them: notifications and leases, and which pages of a file were read.
    Rule("inotify_init inotify_init1 inotify_add_watch", errno.ENOSYS),
    Rule("fcntl", unless=(Check(1, (_SET_LEASE, _NOTIFY, _SET_DELEGATION), wanted=False),)),
    Rule("mincore cachestat", errno.ENOSYS),
    Rule("preadv2", errno.EOPNOTSUPP, (Check(5, (0,), _ONLY_FROM_CACHE),)),
    # Programs give this advice without need.
    Rule("fadvise64", 0, (Check(3, (_DROP_FROM_CACHE,), wanted=False),)),
    Rule("madvise", errno.EINVAL, (Check(2, (_PAGE_OUT,), wanted=False),)),
    # Memory that belongs to no process, so no limit of a process counts it.
    Rule("memfd_create memfd_secret", errno.ENOSYS),
    Rule("shmget shmat shmctl semget msgget mq_open"),
    # Large or privileged interfaces of the kernel.
    Rule("bpf perf_event_open userfaultfd add_key request_key keyctl syslog acct personality"),
    Rule("fanotify_init fanotify_mark"),
    Rule("io_uring_setup io_uring_enter io_uring_register", errno.ENOSYS),
    Rule("init_module finit_module delete_module kexec_load kexec_file_load reboot sethostname setdomainname"),
    Rule("settimeofday clock_settime clock_adjtime adjtimex iopl ioperm modify_ldt vhangup"),
)

# Landlock does not restrict these: they work on every file that the process's user may write or list.
NO_ATTRIBUTES: Final = (
    Rule("setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat", errno.ENOTSUP),
    Rule("file_setattr", errno.ENOTSUP),
)

# Nor at these, and a user whom the process shares has more than the process's files. Programs that copy files expect
# success.
SHARED_USER: Final = (
    Rule("chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat", 0),
    Rule("utime utimes", 0, (Check(1, (0,)),), errno.EPERM),
    Rule("utimensat futimesat", 0, (Check(2, (0,)),), errno.EPERM),
    Rule("ioctl", unless=(Check(1, _SET_FILE_FLAGS, wanted=False),)),
)
NO_SIGNALS: Final = (Rule("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal"),)

_CLONE_THREAD: Final = 0x10000
_AF_UNIX, _AF_INET, _AF_INET6, _SOCK_STREAM = 1, 2, 10, 1
_NO_SOCKETS: Final = (Rule("socket socketpair connect bind listen accept accept4", errno.EACCES),)
_CLIENT_SOCKETS: Final = (
    Rule("socket", errno.EACCES, (Check(0, (_AF_INET, _AF_INET6)),)),
    Rule("socketpair", errno.EACCES, (Check(0, (_AF_UNIX,)), Check(1, (_SOCK_STREAM,), 0xF))),
    Rule("listen accept accept4", errno.EACCES),
)
_PAIRS: Final = Rule("socketpair", errno.EACCES, (Check(0, (_AF_UNIX,)),))
_PROGRAM_ALONE: Final = (Rule("socket connect bind listen accept accept4", errno.EACCES), _PAIRS)
# Resolvers of names ask the kernel for its addresses by netlink, and get on without the answer.
_PROGRAM_CLIENT: Final = (
    Rule("socket", errno.EACCES, (Check(0, (_AF_INET, _AF_INET6)),)),
    Rule("listen accept accept4", errno.EACCES),
    _PAIRS,
)
# The process starts no other, and keeps its limits.
_ONE_PROCESS: Final = (
    Rule("execve execveat fork vfork setrlimit"),
    Rule("clone", unless=(Check(0, (_CLONE_THREAD,), _CLONE_THREAD), Check(0, (0,), NEW_NAMESPACES))),
    Rule("prlimit64", unless=(Check(0, (0,)), Check(2, (0,)))),
)


def confined_process_rules(*, network: bool) -> tuple[Rule, ...]:
    """Returns the rules of a confined process, which starts no process and, without `network`, opens no socket."""
    sockets = _CLIENT_SOCKETS if network else _NO_SOCKETS
    return (*sockets, *_ONE_PROCESS, *KERNEL, *NO_ATTRIBUTES, *SHARED_USER, *NO_SIGNALS)


def program_rules(*, network: bool) -> tuple[Rule, ...]:
    """Returns the rules of a program that starts processes of its own and, without `network`, opens no socket."""
    sockets = _PROGRAM_CLIENT if network else _PROGRAM_ALONE
    return (*sockets, *KERNEL, *NO_ATTRIBUTES)
