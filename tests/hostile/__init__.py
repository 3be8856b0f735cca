"""Tests of input at its worst: hostile servers, experiment files, buckets and run folders.

Each file has a table of named inputs that once caused a failure, and a Hypothesis test that looks
for more. It tries some dozens or hundreds of random inputs in `make test`, and thousands in `make
fuzz`. If it finds a failure, add its input to the table, or as an `@example` to the test.
"""
