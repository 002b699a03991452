"""The JSON of messages: whole messages as objects, and texts that mean times and lists of values."""
