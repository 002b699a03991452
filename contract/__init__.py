"""Rules and types that the parts of the service share.

Derived from the options of `protos/`: field bounds, defaults, spellings of enums, error reasons, routes, the JSON of
messages. Defined here: roles of people, names of metadata, groups of usage records, source addresses, and versions.

`channel` and `connections` are for the edge and the console, which call the services and serve HTTP.
"""
