"""``python -m xoptim`` is the command ``xopt``."""

from xoptim.cli.main import main

main()
