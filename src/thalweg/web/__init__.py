"""Admin and viewer pages: templates and static files."""
