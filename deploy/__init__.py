"""The `workflow-api` command, the start of all parts, their settings, backups and diagnosis."""
