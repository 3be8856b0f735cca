"""Published figures, and what a run says of each: reproduced, not reproduced, or why neither."""
