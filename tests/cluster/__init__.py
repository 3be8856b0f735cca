"""The charts against a real API server, its controllers and its scheduler."""
