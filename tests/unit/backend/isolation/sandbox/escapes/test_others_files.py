"""Attacks of a hostile step that would show what the host and other steps do with files that all of them share."""

from pathlib import Path

import pytest

from tests.unit.backend.isolation.sandbox.layers import EVERY_LAYER, each, opened
from tests.unit.backend.isolation.sandbox.steps import Steps

CALLS = """
import ctypes, errno, fcntl, glob, mmap, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
SHARED = os.__file__
NUMBERS = {"x86_64": {"fanotify_init": 300, "fanotify_mark": 301, "inotify_init": 253, "inotify_init1": 294,
                      "inotify_add_watch": 254, "preadv2": 327, "fadvise64": 221},
           "aarch64": {"fanotify_init": 262, "fanotify_mark": 263, "inotify_init1": 26, "inotify_add_watch": 27,
                       "preadv2": 286, "fadvise64": 223}}[platform.machine()]
def call(name, *arguments):
    return answer(libc.syscall(NUMBERS.get(name, 451), *[ctypes.c_long(a) for a in arguments]))
def answer(result):
    return errno.errorcode[ctypes.get_errno()] if result < 0 else result
def mapped():
    size = os.stat(SHARED).st_size
    fd = os.open(SHARED, os.O_RDONLY)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(size), 1, 2, fd, ctypes.c_long(0))
    return ctypes.c_void_p(address), ctypes.c_size_t(size)
def control(command, argument):
    shared = os.path.dirname(SHARED) if command == fcntl.F_NOTIFY else SHARED
    try:
        return fcntl.fcntl(os.open(shared, os.O_RDONLY), command, argument)
    except OSError as error:
        return errno.errorcode[error.errno]
"""

REFUSED = {
    "inotify_init": "call('inotify_init') if 'inotify_init' in NUMBERS else 'ENOSYS'",
    "inotify_init1": "call('inotify_init1', 0)",
    "inotify_add_watch": "call('inotify_add_watch', 0, 0, 0)",
    "the library's inotify": "answer(libc.inotify_init1(0))",
    "fanotify_init": "call('fanotify_init', 0x200, 0)",
    "fanotify_mark": "call('fanotify_mark', 0, 0, 0, 0, 0)",
    "a lease": "control(1024, fcntl.F_RDLCK)",
    "a delegation": "control(1040, 0)",
    "dnotify": "control(fcntl.F_NOTIFY, 0x1)",
    "mincore": "answer(libc.mincore(*mapped(), ctypes.create_string_buffer(4096)))",
    "cachestat": "call('cachestat', os.open(SHARED, os.O_RDONLY), 0, 0, 0)",
    "a read from the cache only": "call('preadv2', os.open(SHARED, os.O_RDONLY), 0, 0, 0, 0, 0x8)",
    "paging out": "answer(libc.madvise(*mapped(), 21))",
}


def test_what_others_do_with_shared_files_cannot_be_watched(confined: Steps) -> None:
    ways = ", ".join(f"{way!r}: {attempt}" for way, attempt in REFUSED.items())
    answers = confined.run(f"{CALLS}\ndef run(context): return {{{ways}}}")
    assert answers.keys() == REFUSED.keys()
    refused = {"ENOSYS", "EPERM", "ENOTSUP", "EINVAL"}
    assert {way: answer for way, answer in answers.items() if answer not in refused} == {}


def test_shared_pages_stay_in_the_cache(confined: Steps) -> None:
    """The kernel drops pages on advice; invalid advice shows that it does not look at any."""
    code = """
def run(context):
    fd = os.open(SHARED, os.O_RDONLY)
    return [call("fadvise64", -1, 0, 0, 4), call("fadvise64", -1, 0, 0, 1), call("fadvise64", fd, 0, 0, 1)]
"""
    assert confined.run(CALLS + code) == [0, "EBADF", 0]


def test_ordinary_calls_on_shared_files_work(confined: Steps) -> None:
    code = """
def run(context):
    with open(SHARED, "rb") as file:
        fcntl.fcntl(file, fcntl.F_GETFL)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        first = bytearray(6)
        read = os.preadv(file.fileno(), [first], 0)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            view.madvise(mmap.MADV_WILLNEED)
            return [read, first == view[:6]]
"""
    assert confined.run(CALLS + code) == [6, True]


def test_no_locks_of_others_are_listed(isolated: Steps) -> None:
    assert isolated.run("def run(context): return open('/proc/locks').read()") == ""


@pytest.mark.parametrize("layer", each(EVERY_LAYER))
def test_no_step_holds_the_file_of_its_runner(layer: str, tmp_path: Path) -> None:
    """All steps of a worker share that file: its offset, mode, times and locks would be messages between them."""
    code = """
import os, stat
def run(context):
    held = []
    for fd in range(4096):
        try:
            held.append(stat.filemode(os.fstat(fd).st_mode)[0])
        except OSError:
            continue
    return held
"""
    with opened(layer) as sandbox:
        assert Steps(sandbox, tmp_path).run(code) == ["c", "p", "p", "s"]
