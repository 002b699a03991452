"""Audit trail: records of changes, which every service writes, and their pages and exports."""
