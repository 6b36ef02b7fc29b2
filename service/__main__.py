"""`python -m service` is the same as `gatehouse`."""

from service.cli import main

if __name__ == "__main__":
    main()
