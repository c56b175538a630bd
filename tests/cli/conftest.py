"""The synthetic world and the recordings of the keeper's tests serve the commands' tests too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "app"))
