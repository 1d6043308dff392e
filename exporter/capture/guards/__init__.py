"""Guards: what a capture asks about sizes, how that is answered, and what the captured graph relies on since."""
