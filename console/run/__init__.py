"""Parts of the page of a run: head, timeline, selected step, events, previews, texts, and their bounds."""
