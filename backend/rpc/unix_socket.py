"""Creates the folder of a Unix socket that only the service's own user may reach."""

import errno
import os
import socket
from pathlib import Path


def claim_socket(path: Path) -> None:
    """Makes the socket's folder where it is missing.

    Raises:
        ValueError: the folder is open to others, or another process listens on the socket.
    """
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError as error:
        raise ValueError(f"The folder {folder} of the gRPC socket cannot be used: {error.strerror}.") from None
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise ValueError(
            f"The folder {folder} of the gRPC socket must belong to the service's user and be closed to all others "
            "(mode 700): whoever reaches the socket administers the service."
        )
    # gRPC takes the place of a socket without asking whether it is in use.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        # EAGAIN: somebody listens, and has as many connections waiting as may wait.
        if probe.connect_ex(str(path)) in {0, errno.EAGAIN}:
            raise ValueError(f"The gRPC address unix:{path} is in use by another process.")
