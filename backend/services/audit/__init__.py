"""The audit trail, which every service writes to."""
