"""This process, as backends show it to those who look at the health of the deployment."""

import os
import socket
from functools import cache
from uuid import uuid4

from contract.versions import RELEASE
from workflow_api.v1.edge_pb2 import EdgeProcess


@cache
def this_process() -> EdgeProcess:
    """Returns the process, with the time of the first call as that of its start."""
    process = EdgeProcess(process_id=f"edge_{uuid4().hex}", host=socket.gethostname(), pid=os.getpid(), release=RELEASE)
    process.started_at.GetCurrentTime()
    return process
