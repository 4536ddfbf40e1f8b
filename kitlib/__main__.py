"""`python -m kitlib` is the `kit` command."""

from kitlib.cli import main

if __name__ == "__main__":
    main()
