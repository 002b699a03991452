"""The command line: one module a command, and folders of modules that commands share."""
