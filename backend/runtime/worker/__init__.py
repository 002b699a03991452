"""The worker that this process is: its sessions and their leases, the memory of its steps, its start and its stop."""
