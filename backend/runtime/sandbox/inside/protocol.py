"""The kinds of frame between a step and its worker, and the bounds that both keep."""

READY, REQUEST, PROGRESS, FILE, RESULT, FAILURE, DROPPED = 1, 2, 3, 4, 5, 6, 7
HEADER_BYTES = 5

MAX_MESSAGE_CHARACTERS = 2_000
MAX_TRACEBACK_CHARACTERS = 64 * 1024
MAX_FILES = 10_000
MAX_PATH_BYTES = 1_024
