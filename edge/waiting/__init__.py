"""Long polls, whose answers are held until the run changes, and streams of events."""
