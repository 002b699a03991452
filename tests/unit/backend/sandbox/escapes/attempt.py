"""The attempts do no harm where a layer fails to hold: they read, or write to what the test itself has made."""

ATTEMPT = """
import os
def attempt(what, *arguments, **named):
    try:
        what(*arguments, **named)
    except Exception as error:
        return type(error).__name__
"""
