"""Scripts that measure how fast and how accurate the parts of this project are."""
