"""Attacks of a hostile step on the kernel."""

import platform

from tests.unit.backend.isolation.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.isolation.sandbox.steps import Steps

SETTINGS = [
    "/proc/sys/kernel/printk_ratelimit",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/swappiness",
    "/proc/1/oom_score_adj",
    "/sys/kernel/mm/ksm/run",
    "/sys/fs/cgroup/cgroup.procs",
    "/dev/kmsg",
    "/dev/mem",
]


def test_the_kernels_settings_cannot_be_opened_for_writing(confined: Steps) -> None:
    """Only opens and closes them; nothing is written."""
    opened = confined.run(
        """
        import os
        def run(context):
            opened = []
            for path in context.parameters["paths"]:
                try:
                    os.close(os.open(path, os.O_WRONLY))
                except OSError:
                    continue
                opened.append(path)
            return opened
        """,
        parameters={"paths": SETTINGS},
    )
    assert opened == []


CALLS = {
    "x86_64": "101 310 311 312 438 165 155 161 272 308 425 321 298 323 250 248 303 304 319 29 175 313 246 169 103 435",
    "aarch64": "117 270 271 272 438 40 41 51 97 268 425 280 241 282 219 217 264 265 279 194 105 273 104 142 116 435",
}


def test_dangerous_calls_are_refused_before_they_are_looked_at(confined: Steps) -> None:
    """All with empty arguments, which the kernel would refuse as invalid."""
    answers = confined.run(
        """
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        def run(context):
            answers = {}
            for call in context.parameters["calls"]:
                libc.syscall(call, *[ctypes.c_ulong(0)] * 6)
                answers[str(call)] = errno.errorcode.get(ctypes.get_errno())
            return answers
        """,
        parameters={"calls": [int(call) for call in CALLS[platform.machine()].split()]},
    )
    assert {call: answer for call, answer in answers.items() if answer not in {"EPERM", "ENOSYS"}} == {}


NAMESPACES = (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x80)


def test_no_namespace_can_be_made(confined: Steps) -> None:
    made = confined.run(
        """
        import ctypes, os, platform
        libc = ctypes.CDLL(None, use_errno=True)
        clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
        def attempt(flag):
            unshared = libc.unshare(flag)
            cloned = -1 if flag == 0x80 else libc.syscall(clone, ctypes.c_ulong(flag | 17), 0, 0, 0, 0)
            if cloned == 0:
                os._exit(0)
            return [unshared, cloned]
        def run(context):
            return [attempt(flag) for flag in context.parameters["flags"]]
        """,
        parameters={"flags": NAMESPACES},
    )
    assert made == [[-1, -1]] * len(NAMESPACES)


def test_rights_cannot_be_gained(confined: Steps) -> None:
    """No program can raise them, no user id can be changed, and the only capability is to read allowed files."""
    no_new, becoming, held = confined.run(
        ATTEMPT
        + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def run(context):
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    others = {0, 1, 12345} - {os.getuid()}
    return [libc.prctl(39, 0, 0, 0, 0), [attempt(os.setuid, user) for user in others], list(data)]
"""
    )
    assert no_new == 1
    assert None not in becoming
    assert {mask & ~(1 << 2) for mask in held} == {0}
    if confined.sandbox.layer.name == "bwrap":
        assert set(held) == {0}
