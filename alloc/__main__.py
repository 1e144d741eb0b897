"""``python -m alloc``, the same as the program ``alloc``."""

from alloc.cli import main

main()
