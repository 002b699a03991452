"""The worker part of a process: sessions and their leases, and the start and stop of all that executes segments."""
