"""The load generator: the program of the measuring Job."""
