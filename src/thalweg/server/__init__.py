"""The ASGI application and the supervisor of its processes."""
