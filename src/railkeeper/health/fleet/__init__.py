"""Location at the size of a fleet: millions of path rows a tick."""
