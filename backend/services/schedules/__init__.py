"""Schedules of workflows and planned starts: what they start, and their administration by people."""
