"""Fixtures of other folders that hostile tests use too."""

from tests.draftworth.conftest import ran

__all__ = ["ran"]
