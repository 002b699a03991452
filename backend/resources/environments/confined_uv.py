"""Entry point of the process that runs uv: drops the rights that uv does not need, then executes uv.

Run as `python -I -X utf8 -m backend.resources.environments.confined_uv OPTIONS COMMAND...`, with options as JSON.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from backend.isolation.confined import restrictions

_NEWEST_ABI: Final = 6
_MOST_OPEN_FILES: Final = 1_024


def main(options: Mapping[str, Any], command: list[str]) -> NoReturn:
    """Confines this process within the limits of the options, and executes the command in it.

    Raises:
        OSError: a layer that this kernel supports could not be applied.
    """
    os.setsid()
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit, most in (
        (resource.RLIMIT_FSIZE, options["bytes"]),
        (resource.RLIMIT_DATA, options["memory_bytes"]),
        (resource.RLIMIT_CPU, options["cpu_seconds"]),
        (resource.RLIMIT_NOFILE, _MOST_OPEN_FILES),
    ):
        ceiling = resource.getrlimit(limit)[1]
        bounded = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        resource.setrlimit(limit, (bounded, bounded))
    restrictions.prctl(restrictions.SET_NO_NEW_PRIVS, 1)
    if not options["network"]:
        restrictions.new_namespaces()
    abi = restrictions.landlock_abi()
    if abi:
        restrictions.restrict_files(options["paths"], min(abi, _NEWEST_ABI), network=options["network"])
    restrictions.drop_rights(None)
    # Set after the change of rights, which resets this signal.
    restrictions.prctl(restrictions.SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != options["parent"]:
        os._exit(1)
    restrictions.close_all_but({0, 1, 2})
    if options["filter"] is not None:
        restrictions.filter_calls(bytes.fromhex(options["filter"]))
    os.execve(command[0], command, os.environ)  # noqa: S606, TID251 - the purpose of this program, which was given its environment


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
