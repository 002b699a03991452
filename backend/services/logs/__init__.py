"""Logs of steps, for people: kept per attempt, readable while a step runs. Never on the public API."""
