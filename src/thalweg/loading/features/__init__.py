"""Loading of vector files into layers."""
