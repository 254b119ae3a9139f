"""``python -m kinbandits`` is the command ``kinbandits``."""

from kinbandits.cli import main

if __name__ == "__main__":
    main()
