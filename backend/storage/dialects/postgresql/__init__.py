"""PostgreSQL, which several processes share."""
