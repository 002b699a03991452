"""Keys of stored objects."""

from typing import Final


def run_prefix(run_id: str) -> str:
    """Returns the prefix of all objects of a run."""
    return f"runs/{run_id}/"


OWNERS: Final = ("runs/", "uploads/")
"""Prefixes of all objects: of runs, and of uploads."""


def run_of(key: str) -> str:
    """Returns the id of the run that an object belongs to."""
    return key.split("/")[1]


def object_key(run_id: str, name: str) -> str:
    """Returns the key of one object of a run; `name` is an id made by this service, as an output id."""
    return run_prefix(run_id) + name


def is_output_key(key: str) -> bool:
    """Returns whether an object of a run is an output, by its place; step logs and reviews are in folders."""
    return key.startswith("runs/") and key.count("/") == 2


def swept_output_key(run_id: str, output_id: str, sweep_id: str) -> str:
    """Returns the key of the copy of an output that one attempt of a final sweep stores."""
    return object_key(run_id, f"{output_id}-{sweep_id}-swept")


def shared_file_key(run_id: str, step: str, name: str) -> str:
    """Returns the key of a file that a step left for later steps alone; `name` is an id made by this service."""
    return object_key(run_id, f"shared/{step}/{name}")


def is_shared_file_key(key: str) -> bool:
    """Returns whether an object of a run is a file for later steps alone, by its place."""
    return key.startswith(object_key(run_of(key), "shared/"))


def unnamed_outputs_key(run_id: str, asked_by: str) -> str:
    """Returns a key that stands, among objects to be removed, for all objects of a finished run that nobody needs.

    These are shared files of steps, and objects of swept outputs that no row names. No object has this key, so an
    earlier release, which does not know it, removes nothing.
    """
    return object_key(run_id, f"unnamed/{asked_by}")


def is_unnamed_outputs_key(key: str) -> bool:
    """Returns whether a key is one of `unnamed_outputs_key`."""
    return key.startswith(unnamed_outputs_key(run_of(key), ""))


def result_row_key(run_id: str) -> str:
    """Returns the key of a result that is in its run's row (`backend.storage.objects.in_rows`)."""
    return object_key(run_id, "row/result")


def step_log_key(run_id: str, step: str, attempt: int) -> str:
    """Returns the key of the log of an attempt; `step` is a handle, or `<handle>/<index>` of an item of a fan-out."""
    return object_key(run_id, f"logs/{step}-{attempt}")


def step_transcript_key(run_id: str, step: str, attempt: int) -> str:
    """Returns the key of the messages between an attempt and its model; `step` is as in `step_log_key`."""
    return object_key(run_id, f"transcripts/{step}-{attempt}")


def upload_prefix(upload_id: str) -> str:
    """Returns the prefix of all objects of an upload."""
    return f"uploads/{upload_id}/"


def upload_file_prefix(upload_id: str, number: int) -> str:
    """Returns the prefix of the objects of one file of an upload."""
    return f"{upload_prefix(upload_id)}{number}/"


def upload_part_key(upload_id: str, number: int, offset: int, size: int) -> str:
    """Returns the key of `size` bytes of a file from `offset` on, as they were sent.

    A repeated call with fewer or more bytes, overtaken by another, so replaces nothing.
    """
    return f"{upload_file_prefix(upload_id, number)}{offset}-{size}"


def upload_members_key(upload_id: str, number: int) -> str:
    """Returns the key of the contents of a zip's members, one after the other."""
    return f"{upload_prefix(upload_id)}members-{number}"
