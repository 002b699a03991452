"""Names of run statuses in the tables, and their numbers in messages."""

from typing import Final

from workflow_api.v1 import runs_pb2

STATUS_NUMBERS: Final = {
    name.removeprefix("RUN_STATUS_").lower(): number for name, number in runs_pb2.RunStatus.items()
}
STATUS_NAMES: Final = {number: name for name, number in STATUS_NUMBERS.items() if number}
