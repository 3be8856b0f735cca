"""The measuring Job's program: sends requests to the servers and stores what was measured."""
