"""The people who may sign in to the console, and their sessions."""
