"""What runs inside a step's sandbox: standard library only, handed in as byte code (`program.compiled`).

Python's start and what it imports are most of a small step's processor time, so what takes long to import (json,
pathlib and typing, all for the sake of re) waits until a step needs it.
"""
