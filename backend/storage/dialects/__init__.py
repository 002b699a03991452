"""The databases that the service can use, one folder each."""
