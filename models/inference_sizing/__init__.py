"""F7 for inference: replicas of models on GPU types for request rates and latencies."""
