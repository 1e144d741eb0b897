"""The report: one HTML file that says what is proved and how far each scheduler is from it."""
