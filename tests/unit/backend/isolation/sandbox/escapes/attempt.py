"""Attacks that do no harm if a layer fails: they read, or write to files of the test itself."""

ATTEMPT = """
import os
def attempt(what, *arguments, **named):
    try:
        what(*arguments, **named)
    except Exception as error:
        return type(error).__name__
"""
