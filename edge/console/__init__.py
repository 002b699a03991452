"""The web console: what administrators and approvers see, on its own port, a caller of the services like any other."""
