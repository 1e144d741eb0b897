"""Quotas: one program for every measure."""
