"""``python -m speclsp`` is the ``speclsp`` command."""

from speclsp.cli.main import main

if __name__ == "__main__":
    main()
