"""Learning from the optimum: policies trained on exact decisions."""
