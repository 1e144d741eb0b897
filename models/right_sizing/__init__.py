"""F7 in planning: what to buy or rent, where and when, for a forecast of work."""
