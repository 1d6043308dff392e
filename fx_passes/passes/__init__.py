"""One pass a file, named by what it does."""
