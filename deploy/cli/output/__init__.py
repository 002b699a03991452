"""What commands print: JSON or tables, times, colours, and details of runs and keys."""
