"""What became of a model: what its export took for granted, the parts of its modules, the way of each line."""
