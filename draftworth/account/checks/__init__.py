"""The checks of `draftworth preflight`: each a small function from the situation to an result."""
