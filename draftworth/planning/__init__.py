"""Plans a run before it starts: the run specification, the time line, costs and assumptions."""
