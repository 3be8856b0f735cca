"""Measures draftworth itself: its client, verdict, search, CDK synthesis and metrics publisher."""
