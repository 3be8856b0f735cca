"""Estimates what a draft will yield and save from the target's outputs, without an accelerator."""
