"""Checks load generators with the truth server, whose chunks have known tokens and times."""
