"""Set up before any test: pictures are drawn without a screen, and interrupts arrive.

What a shell starts in the background ignores interrupts, and so would all that is started from there.
"""

import os
import signal

os.environ.setdefault("MPLBACKEND", "Agg")
signal.signal(signal.SIGINT, signal.default_int_handler)
