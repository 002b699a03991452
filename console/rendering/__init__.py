"""Rendering of pages: templates, times and zones, formats of values, charts, graphs of steps, the budget of a page."""
