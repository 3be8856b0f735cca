"""Tests of what can be bought where."""
