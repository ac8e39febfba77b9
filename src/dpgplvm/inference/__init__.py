"""How the bound is climbed."""
