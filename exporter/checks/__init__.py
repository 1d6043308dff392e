"""Model-conversion checks: the models of a manifest, exported and validated in workers, held to budgets and a lock."""
