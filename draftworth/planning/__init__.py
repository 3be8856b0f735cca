"""What will happen, when and for how much: the run specification, the time line, assumptions."""
