"""The event-driven simulator and the rolling horizon."""
