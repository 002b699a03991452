"""Parts of the page of one run: what its sections show, without the requests for it."""
