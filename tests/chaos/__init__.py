"""Real worker processes under load while something goes wrong, and the books that must balance afterwards.

`test_chaos.py` is the short form, every fault once; `python -m tests.chaos` (`make chaos`) the long one.
"""
