"""`python -m headgate.wire FOLDER` is the process beside one agent; its runner starts it."""

import sys

from headgate.wire.process import main

sys.exit(main(sys.argv))
