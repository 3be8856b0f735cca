"""The report of a run: for a terminal, as Markdown, as one HTML file with plots, and as CSV."""
