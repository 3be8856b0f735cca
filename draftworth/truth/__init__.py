"""A server that emits a known token timeline, against which clients are checked."""
