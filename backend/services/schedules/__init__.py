"""Schedules of workflows and planned starts: starting their runs, and their administration by people."""
