"""Language models that agents and the redaction call."""
