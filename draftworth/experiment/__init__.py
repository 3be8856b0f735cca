"""Defines, loads and checks experiment files; has the catalogue; derives placement and names."""
