"""Protocols: each door parses once into domain requests and writes its own documents and errors."""
