"""Plans a run before it starts: the run's specification, its time line, costs and assumptions."""
