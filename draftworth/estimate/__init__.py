"""Estimates, without an accelerator, what a draft would yield and save.

The estimates are made from outputs of the target model that exist already.
"""
