"""The report of a run: what was found, as Markdown, one HTML file, plots and tables for a notebook.

`facts` computes everything once, `document` says it in words, tables and plots, and `markdown`,
`html` and `tables` only render. Nothing here is imported by the pod or the function.
"""
