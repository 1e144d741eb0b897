"""Inference: relaxations over mixes of replicas."""
