"""Renderings of files for people, made in confined processes: Markdown as HTML, pictures, and pages of PDFs."""
