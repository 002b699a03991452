"""JSON of protobuf messages, and searches in JSON text."""
