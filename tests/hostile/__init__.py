"""What comes from outside, at its worst: servers, experiment files, buckets, run folders.

Each file has a table of named rows, every one a failure that was found once, and a fuzzer that
looks for the next. A fuzzer tries some hundreds in `make test` and thousands in `make fuzz`. To
keep what it found: add a row (an `@example` of Hypothesis, or a line of the file's table).
"""
