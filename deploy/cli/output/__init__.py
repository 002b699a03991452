"""Output of commands: JSON or tables, times, colours, and details of runs and keys."""
