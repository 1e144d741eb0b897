"""Round allocation: a multi-dimensional multiple-choice knapsack."""
