"""``python -m swr`` is the command `swr`."""

from swr.bench.cli import main

if __name__ == "__main__":
    main()
