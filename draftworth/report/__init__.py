"""The report of a run: in the terminal, as Markdown, as one HTML file with plots, and as CSV files.

`analysis.facts` computes everything; `contents` and `figures` make the document of it, `terminal`
prints it, `writing` fills the templates; `tables` has the CSV files. Nothing here is imported by
the pod or the function.
"""
