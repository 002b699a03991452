"""What the edge processes of one command count together, in memory that they share (decision 0026)."""
