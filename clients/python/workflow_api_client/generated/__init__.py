"""What the client takes from the protos. Made from the protos by `make generate`; never edited by hand."""
