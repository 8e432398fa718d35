"""A second reading of the mroce transport: codec and a small peer, written from docs/spec alone."""
