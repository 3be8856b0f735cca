"""The program of the measuring Job."""
