"""Finds, counts and replaces personal data in texts, JSON values, files and their names; see README.md.

    from redaction.redactor import Redactor
    redactor = Redactor({"mode": "redact"})
    redactor.text(text)                      # "Mail [EMAIL_ADDRESS]"

Modules import one another downwards only: command, redactor, local_model, formats, sweep, search, rules.
"""
