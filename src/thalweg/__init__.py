"""Thalweg, an open data server: one store, several doors."""

__version__ = "0.1.0"
