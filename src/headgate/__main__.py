"""`python -m headgate` is the command line."""

import sys

from headgate.cli import main

sys.exit(main())
