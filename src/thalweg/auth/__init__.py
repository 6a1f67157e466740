"""Who asks, which role they hold, what it permits."""
