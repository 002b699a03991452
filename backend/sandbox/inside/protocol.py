"""Kinds of frames between a step and its worker, and the limits that both enforce."""

READY, REQUEST, PROGRESS, FILE, RESULT, FAILURE, SKIPPED, DROPPED = 1, 2, 3, 4, 5, 6, 7, 8
HEADER_BYTES = 5

MAX_MESSAGE_CHARACTERS = 2_000
MAX_TRACEBACK_CHARACTERS = 64 * 1024
MAX_PATH_BYTES = 1_024

SHARED = "shared"
FOLDERS = ("outputs", SHARED)
"""The folders whose files are sent, in this order; a FILE frame names the one of its file."""

SYMLINK, PIPE, SOCKET, DEVICE = "symlink", "pipe", "socket", "device"
OVER_FILES, OVER_DIRECTORIES, OVER_LEVELS = "over_files", "over_directories", "over_levels"
SKIPPED_KINDS = (SYMLINK, PIPE, SOCKET, DEVICE, OVER_FILES, OVER_DIRECTORIES, OVER_LEVELS)
"""Reasons why entries of these folders are not sent; a SKIPPED frame counts them by these."""
