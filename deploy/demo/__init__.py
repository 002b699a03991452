"""The demonstration of `workflow-api serve --demo`."""
