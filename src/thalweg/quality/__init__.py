"""Quality control: arrays in, flags out; pure functions."""
