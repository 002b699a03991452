"""Parts of the page of one run: timeline, selected step, events and their live updates, lines to copy."""
