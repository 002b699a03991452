"""The database that several processes share."""
