"""Judges published figures by a run: reproduced, not reproduced, or why neither can be said."""
