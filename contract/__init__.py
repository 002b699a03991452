"""Rules and types that the parts of the service share.

Read from the options of `protos/`: field bounds, defaults, spellings of enums, error reasons, routes, the JSON of
messages. Besides: roles of people, names of metadata, groups of usage records, source addresses, and versions.

`channel` and `connections` are for what calls the services and serves HTTP: the edge and the console.
"""
