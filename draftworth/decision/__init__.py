"""Decides the verdict of each comparison in a run, and what to serve. Has no text for people."""
