"""`python -m flowfabric_client`: the command line without its script on the PATH."""

from flowfabric_client.cli import main

main()
