"""``memplan estimate`` and ``memplan largest`` offer the flags of what they call."""

from __future__ import annotations

import argparse
import inspect

import memplan
from memplan.cli.arguments import add_reading


def test_every_flag_of_reading_is_an_option_of_estimate() -> None:
    parser = argparse.ArgumentParser()
    add_reading(parser.add_argument_group("reading"))
    flags = {action.dest for action in parser._actions} - {"help"}
    assert {"dims", "train", "trust", "optimizer"} <= flags <= set(inspect.signature(memplan.estimate).parameters)
