"""What decides which wheels fit: the interpreter's version and the machine it is on."""

import sys
import sysconfig


def interpreter_tag() -> str:
    """Returns the interpreter of steps as `cpython-3.11-linux-x86_64`; packages are built for one of these."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{sys.implementation.name}-{version}-{sysconfig.get_platform()}"
