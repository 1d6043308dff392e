"""The export itself: its stages on one page, and what it takes and raises: arguments, options, errors."""
