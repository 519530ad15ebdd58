"""`python -m daycare` is the command `daycare`."""

from daycare.cli.main import main

if __name__ == "__main__":
    main()
