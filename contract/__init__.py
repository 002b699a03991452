"""What both sides of the wire share, compiled from `protos/`.

Field bounds, spellings of enums, error reasons, names of metadata, source addresses, versions.
"""
