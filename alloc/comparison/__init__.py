"""Schedulers beside the certified optimum, instance by instance."""
