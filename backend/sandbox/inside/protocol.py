"""The kinds of frame between a step and its worker, and the bounds that both keep."""

READY, REQUEST, PROGRESS, FILE, RESULT, FAILURE, SKIPPED, DROPPED = 1, 2, 3, 4, 5, 6, 7, 8
HEADER_BYTES = 5

MAX_MESSAGE_CHARACTERS = 2_000
MAX_TRACEBACK_CHARACTERS = 64 * 1024
MAX_PATH_BYTES = 1_024

SYMLINK, PIPE, SOCKET, DEVICE = "symlink", "pipe", "socket", "device"
OVER_FILES, OVER_DIRECTORIES, OVER_LEVELS = "over_files", "over_directories", "over_levels"
SKIPPED_KINDS = (SYMLINK, PIPE, SOCKET, DEVICE, OVER_FILES, OVER_DIRECTORIES, OVER_LEVELS)
"""Why entries of the output folder do not become outputs; a SKIPPED frame counts them by these."""
