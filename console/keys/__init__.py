"""Parts of the pages of keys: the form, details, trial calls, counts of usage."""
