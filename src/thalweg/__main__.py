"""``python -m thalweg``: the command line."""

from thalweg.cli import main

if __name__ == "__main__":
    main()
