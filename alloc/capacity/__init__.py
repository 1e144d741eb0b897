"""What a cluster could be made of and what it must serve: offers, sites, demand, plans."""
