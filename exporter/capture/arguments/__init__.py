"""What a call of a model takes and gives: its values by their paths, containers of all kinds, and how they nest."""
