"""The experiment file: its model, loading and rules, the catalogue, placement and names."""
