"""Tests mirror the tree; see `docs/testing.md` for the tiers."""
