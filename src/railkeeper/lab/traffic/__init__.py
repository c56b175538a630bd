"""A spraying sender and receiver over real packets, with MRC's path-state machine: the lab's job."""
