"""Parts of the pages of API keys: form, details, dry runs of calls, counts of usage."""
