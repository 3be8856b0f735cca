"""Fixtures of other test folders that these tests use too."""

from tests.draftworth.conftest import ran

__all__ = ["ran"]
