"""`python -m exporter.cli`: the same as the `fxport` script."""

import sys

from exporter.cli import main

sys.exit(main())
