"""Blocks as bytes: chunks for history, row blobs for the tail, and the merging of both. The same in every back end."""
