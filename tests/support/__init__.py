"""Code that several test modules share."""
