"""The tiny target and draft models that a rehearsal serves, and the script that makes them."""
