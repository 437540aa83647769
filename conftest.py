"""Loads the test harness for both kinds of tests: Python in tests/, pgTAP in pgtap/."""

pytest_plugins = ["pytester", "tests.support.plugin"]
