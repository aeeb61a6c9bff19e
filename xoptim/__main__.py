"""``python -m xoptim`` is the command ``xopt``."""

from xoptim.cli.start import main

main()
