"""What values of each entity type look like."""
