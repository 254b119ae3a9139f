"""Linear algebra that has never heard of arms: factors and inverses that grow, and what rounding does to them."""
