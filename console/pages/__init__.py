"""Handlers of the console's pages, a module per subject; `console/routes.py` lists the pages."""
