"""What the tests stand on: the private server, the pgTAP collector, helpers for races."""
