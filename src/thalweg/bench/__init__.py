"""Load profiles: networks made from a seed, targets, measurements that a reader can repeat."""
