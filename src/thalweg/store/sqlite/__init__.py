"""The embedded back end: one SQLite file, written by several processes."""
