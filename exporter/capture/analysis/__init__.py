"""Static analysis of one Python function: its source, the names that statements bind, control flow and liveness."""
