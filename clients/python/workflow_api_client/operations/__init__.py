"""What the client does, as generators of commands: the same for threads and for tasks."""
