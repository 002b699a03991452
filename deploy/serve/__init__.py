"""The serving processes: backend, edge, console, worker, or all in one."""
