"""`python -m igcf` is the `igcf` command."""

from igcf.cli.main import main

main()
