"""Whether a folder can be written or made, by its file system and by its owner and mode."""

import os
from pathlib import Path

from backend.storage.private_folder import user_name
from deploy.doctor.check import Check, failed, not_applicable


def read_only(name: str, folder: Path) -> Check | None:
    """Returns the finding about a folder whose file system takes no change, of anybody; None for any other."""
    if not os.statvfs(folder).f_flag & os.ST_RDONLY:
        return None
    return failed(
        name,
        f"The file system of {folder} is mounted read-only.",
        "Mount it to be written (ReadWritePaths of a unit); after an error of the disk, which the kernel's log has, "
        "repair it first.",
    )


def to_make(name: str, folder: Path, option: str) -> Check:
    """Judges whether the first start can make a folder that is not there; `option` names another one."""
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
