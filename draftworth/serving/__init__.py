"""How one variant is served: flags and environment in each dialect, and the artifact key."""
