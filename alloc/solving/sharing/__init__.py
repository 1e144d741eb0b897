"""F5, GPU sharing: patterns of shares by column generation."""
