"""`python -m fxport`: the same as the `fxport` script."""

import sys

from fxport.exporter.cli import main

sys.exit(main())
