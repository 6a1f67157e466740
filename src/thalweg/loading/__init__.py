"""Loaders: files in, service calls out. ``stations.load_stations`` is where to begin reading."""
