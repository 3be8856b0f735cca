"""The checks of `draftworth preflight`: functions that take a `Situation` and return a result."""
