"""Parts of the form that starts a run: its fields, its files, the values of an earlier run."""
