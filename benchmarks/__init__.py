"""Measurements of draftworth itself: its client, verdict, search, synthesis and publisher."""
