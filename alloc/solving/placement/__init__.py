"""F4 by search, patterns and exact neighbourhoods."""
