"""Readers of published cluster traces."""
