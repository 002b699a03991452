"""Finds personal data in texts, JSON values, files and their names, counts it, and replaces it. (docs/redaction.md).

    engine = RedactionEngine(policy, model)             # a policy as pii_policy.normalise gives it; a model, or None
    engine.sweep_text(text)                    # "Mail [EMAIL_ADDRESS]"
    engine.sweep_value(value)                  # a JSON value: keys kept, strings and numbers swept
    engine.sweep_name("in/jane@x.org.csv")     # "in/[EMAIL_ADDRESS].csv"
    engine.sweep_file(source, target, name)    # FileOutcome(kind, values, withheld, reason)
    engine.counts                              # {"categories": {...}, "values": 3, "files": 1, ...}

Counts of several engines are summed as `Counts.from_dict(a).add(Counts.from_dict(b))`. No database, no network, no
rule compiled before the first sweep.
"""

from backend.redaction.counts import Counts
from backend.redaction.engine import RedactionEngine
from backend.redaction.formats.files import FileOutcome
from backend.redaction.model import Mention, ModelError, ModelRecognizer

__all__ = ["Counts", "FileOutcome", "Mention", "ModelError", "ModelRecognizer", "RedactionEngine"]
