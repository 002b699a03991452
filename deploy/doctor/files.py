"""Checks of the data folder, free space on disks, files with secrets, and the limit of open files."""

import os
import resource
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from backend.common.secrets import ENVIRONMENT, FILE
from backend.services.health.rules import has_little_space
from backend.storage.data_files import user_name
from backend.storage.factory import LOCK_FILE, RESTORING_FILE
from deploy.config.secret_references import redis_secret_name
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, failed, not_applicable, ok, warning
from deploy.serve.lifecycle import OTHER_FILES

_OTHERS: Final = 0o077
_LITTLE_INODES: Final = 0.05
_NO_INODES: Final = 0.005
_GIGABYTE: Final = 10**9


def read_only(name: str, folder: Path) -> Finding | None:
    """Returns the finding about a folder on a read-only file system; None for any other folder."""
    if not os.statvfs(folder).f_flag & os.ST_RDONLY:
        return None
    return failed(
        name,
        f"The file system of {folder} is mounted read-only.",
        "Mount it to be written (ReadWritePaths of a unit); after an error of the disk, which the kernel's log has, "
        "repair it first.",
    )


def missing_folder(name: str, folder: Path, option: str) -> Finding:
    """Checks whether the first start can make a missing folder; `option` is the option that names another folder."""
    present = next(path for path in folder.absolute().parents if path.exists())
    if not present.is_dir():
        return failed(name, f"{folder} cannot be made: {present} is no folder.", f"Name another one by {option}.")
    if (found := read_only(name, present)) is not None:
        return found
    if not os.access(present, os.W_OK | os.X_OK):
        remedy = "Make it and give it to the service's user, or run this as that user."
        user = user_name(os.geteuid())
        return failed(name, f"{folder} is not there, and {user} may not make it in {present}.", remedy)
    return not_applicable(name, f"{folder} is not there yet; the first start makes it.")


def check_data_folder(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks owner and mode of the data folder, and whether a service uses it."""
    data, name = examined.data, "data folder"
    if not data.exists():
        yield missing_folder(name, data, "--data")
        return
    if not data.is_dir():
        yield failed(name, f"{data} is no folder.", "Name another one as data of the settings, or by --data.")
        return
    about = data.stat()
    owner = user_name(about.st_uid)
    if about.st_uid != os.geteuid() and os.geteuid() != 0:
        remedy = "Run this as the service's own user, or give the folder to that."
        yield failed(name, f"{data} belongs to {owner}, and this runs as {user_name(os.geteuid())}.", remedy)
        return
    if (found := read_only(name, data)) is not None:
        yield found
        return
    foreign = [path.name for path in data.iterdir() if _owner(path) not in {about.st_uid, None}]
    if (data / RESTORING_FILE).exists():
        yield failed(name, f"{data} has half of a backup.", "Restore it again: `workflow-api restore FILE --data DIR`.")
    elif foreign:
        yield failed(name, f"{data / foreign[0]} belongs to another user than its folder.", "Give it to that user.")
    elif about.st_mode & _OTHERS:
        yield warning(name, f"Others may enter {data} (mode {stat.S_IMODE(about.st_mode):o}).", f"chmod 700 {data}")
    else:
        yield ok(name, f"{data} belongs to {owner} alone, and {'is' if _locked(data) else 'is not'} in use.")
    if examined.write_probe:
        yield _write_probe(name, data)


def check_disks(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks free space and inodes of every file system that the part writes to."""
    settings = examined.settings
    folders = {"data folder": examined.data, "temporary files": Path(tempfile.gettempdir())}
    if settings.objects.store == "folder" and settings.objects.folder is not None:
        folders["objects"] = settings.objects.folder
    if settings.packages.folder is not None:
        folders["packages"] = settings.packages.folder
    for what, folder in folders.items():
        present = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        yield _free_space(what, present)


def check_secret_files(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks files that hold secrets: their readability and their readers. No value is kept or shown."""
    name = "secrets"
    found = dict(_secret_places(examined))
    if not found:
        yield not_applicable(name, "The settings refer to no secret.")
        return
    problems = [problem for each in found.items() for problem in _secret_problems(*each, examined.environment)]
    yield from problems
    if not problems:
        yield ok(name, f"All {len(found)} secrets of the settings can be read, by their user and group alone.")


def check_open_files(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks the limit of open files against the connections of an edge."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = (
        examined.settings.edge.connections if examined.part in {ServingPart.SERVE, ServingPart.EDGE} else 0
    ) + OTHER_FILES
    shown = "no limit" if most == resource.RLIM_INFINITY else f"{most:,}"
    if most != resource.RLIM_INFINITY and most < needed:
        yield warning(
            "open files",
            f"This shell may open {shown} files, and the part opens up to {needed:,}.",
            f"Raise LimitNOFILE of the unit, or `ulimit -n`, to {needed:,}, or lower edge.connections.",
        )
    else:
        yield ok("open files", f"The limit is {shown}, and the part needs {needed:,}.")


def private_file(name: str, setting: str, path: Path) -> Iterator[Finding]:
    """Yields the problems of a file that only the service may read."""
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError:
        yield failed(name, f"{path}, which {setting} names, is not there.", f"Write it, or correct {setting}.")
        return
    except OSError as error:
        remedy = "Make it readable for the user of the service, and run this as that user."
        yield failed(name, f"{path}, which {setting} names, cannot be read: {error.strerror}.", remedy)
        return
    if empty:
        yield failed(name, f"{path}, which {setting} names, is empty.", "Write the value into it.")
    elif mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        shown = f"{stat.S_IMODE(mode):o}"
        yield warning(name, f"Others may read or write {path} (mode {shown}), of {setting}.", f"chmod 600 {path}")


def _owner(path: Path) -> int | None:
    """Returns the user id of a file's owner; None if the file is gone, as a service removes files at any time."""
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def _locked(data: Path) -> bool:
    """Returns whether a data folder is locked, without taking the lock, because a service may be starting."""
    try:
        inode = (data / LOCK_FILE).stat().st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    return any("FLOCK" in line and f":{inode} " in line for line in locks.splitlines())


def _write_probe(name: str, folder: Path) -> Finding:
    try:
        # The file has no name, or loses it at once.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return failed(name, f"{folder} cannot be written: {error.strerror}.", "Look at its owner, mode and disk.")
    return ok(name, f"{folder} can be written.")


def _free_space(what: str, folder: Path) -> Finding:
    name = f"disk of {what}"
    state = os.statvfs(folder)
    total, free = state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize
    shown = f"{folder} has {_size(free)} of {_size(total)} free"
    remedy = "Make room or a larger disk, or keep run data for fewer days."
    inodes = state.f_favail / state.f_files if state.f_files else 1.0
    if inodes < _LITTLE_INODES:
        judge = failed if inodes < _NO_INODES else warning
        return judge(name, f"{folder} has {state.f_favail:,} of {state.f_files:,} inodes free.", remedy)
    very = has_little_space(total, free)
    if very is None:
        return ok(name, f"{shown}.")
    return failed(name, f"{shown}.", remedy) if very else warning(name, f"{shown}.", remedy)


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= _GIGABYTE else f"{count / 1e6:,.1f} MB"


def _secret_places(examined: ExaminedPart) -> Iterator[tuple[str, str]]:
    """Yields the setting and the reference of every secret that this part reads."""
    settings = examined.settings
    redis = settings.edge.redis_url if examined.part in {ServingPart.SERVE, ServingPart.EDGE} else None
    used = settings.secrets
    given = {"edge.redis_url": redis}
    if examined.part.has_data:
        given["backend.database"] = settings.backend.database
        given["packages.index_url"] = settings.packages.index_url
        given["packages.extra_index_url"] = settings.packages.extra_index_url
    else:
        # Files of these settings need not be on every machine.
        used = {name: where for name, where in used.items() if name == redis_secret_name(redis or "")}
    given |= {f"secrets.{name}": where for name, where in used.items()}
    for setting, where in given.items():
        if where is not None and where.startswith((ENVIRONMENT, FILE)):
            yield setting, where


def _secret_problems(setting: str, where: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    if where.startswith(ENVIRONMENT):
        if not environment.get(where.removeprefix(ENVIRONMENT)):
            yield warning(
                "secrets",
                f"The variable of {setting} is not set here.",
                "Run this with the variables of the service, or set it there.",
            )
        return
    path = Path(where.removeprefix(FILE))
    yield from private_file("secrets", setting, path)
