"""What both sides of the wire share.

Read from the options of `protos/`: field bounds, defaults, spellings of enums, error reasons. Besides: roles of people,
names of metadata, groups of usage records, source addresses, versions, and two helpers that both sides use
(`recent_values`, `loop_deliveries`).
"""
