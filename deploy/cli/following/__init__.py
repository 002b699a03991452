"""Following a run: its events, progress, logs and approvals, until it has ended."""
