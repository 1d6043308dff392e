"""The captured program beside the untouched model, in PyTorch: what was rewritten has to prove itself."""
