"""The client that sends requests, and the run that measures them.

It runs in the measuring Job's pod as well as on a laptop, so it imports nothing but the standard
library and `httptools`.
"""
