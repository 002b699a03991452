"""Finds, counts and replaces personal data in texts, JSON values, files and their names (docs/redaction.md).

    from backend.redaction.engine import RedactionEngine
    engine = RedactionEngine(policy, model)             # a policy as pii_policy.normalise gives it; a model, or None
    engine.sweep_text(text)                    # "Mail [EMAIL_ADDRESS]"
    engine.sweep_value(value)                  # a JSON value: keys kept, strings and numbers swept
    engine.sweep_name("in/jane@x.org.csv")     # "in/[EMAIL_ADDRESS].csv"
    engine.sweep_file(source, target, name)    # FileOutcome(kind, values, withheld, reason)
    engine.counts                              # {"categories": {...}, "values": 3, "files": 1, ...}

Counts of several engines are summed by `Counts.add`. The engine uses neither database nor network, and compiles its
rules at the first sweep. Modules import one another downwards only: process, engine, formats, sweep, search, rules.
"""
