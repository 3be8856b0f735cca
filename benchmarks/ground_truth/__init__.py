"""A server whose token timeline is known, and what it says about a client that measured it."""
