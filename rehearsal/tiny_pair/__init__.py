"""The tiny pair: the target and draft that a rehearsal serves, and the script that makes them."""
