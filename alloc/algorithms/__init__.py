"""Methods of optimisation that know nothing of clusters."""
