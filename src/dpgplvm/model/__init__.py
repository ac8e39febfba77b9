"""The mathematics, as pure functions of arrays."""
