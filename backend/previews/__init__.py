"""What people see of what a run made: values of steps, the beginning of files, the summary. Never on the public API."""
