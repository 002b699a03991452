"""The deployment record and the audit trail."""
