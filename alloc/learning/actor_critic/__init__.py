"""Actor and critic for any decision in steps: one trainer, several agents."""
