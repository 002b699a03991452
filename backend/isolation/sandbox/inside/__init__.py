"""Code that runs inside a step's sandbox: standard library only, passed in as byte code (`interpreter.compiled`).

The start of Python with its imports is most of the processor time of a small step. So modules that are slow to import
(json, pathlib and typing, which import re) are imported only when a step needs them.
"""
