"""Resources of an experiment: how each kind is listed, recognised, priced and removed."""
