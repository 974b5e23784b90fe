"""`python -m snellen` is the command line."""

from snellen.cli.main import main

if __name__ == "__main__":
    main()
