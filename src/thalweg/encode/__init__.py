"""Formats that several doors share."""
