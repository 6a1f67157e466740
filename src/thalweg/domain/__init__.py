"""The vocabulary of Thalweg: what is stored, asked for and refused, in the standards' words. No I/O."""
