"""Rendering of pages: templates, times and zones, formats of values, texts, charts, graphs of steps, exports."""
