"""Set up before any test: pictures are drawn without a screen."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
