"""Use cases: what the server does, whatever the protocol."""
