"""DL2 as published: state, networks, supervised phase, actor-critic."""
