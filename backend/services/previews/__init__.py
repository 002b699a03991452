"""Previews of a run for people: values of steps, beginnings of files, the summary. Never on the public API."""
