"""Decides what a run says: the verdict of each comparison, and what to serve. Types, no text."""
