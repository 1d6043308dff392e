"""Dynamic sizes: what was asked for, what became of it, what the captured graph relies on, and other sizes to try."""
