"""Defines, loads and checks experiment files; reads `catalog.yaml`; derives placement and names."""
