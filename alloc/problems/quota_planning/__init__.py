"""Quotas: tenants, their demand, what they are guaranteed, and the plan that answers."""
