"""The command line: one module a command, and a folder for each thing that commands share."""
