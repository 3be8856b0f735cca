"""From a run's records to figures with intervals, and to the verdict. Standard library only."""
