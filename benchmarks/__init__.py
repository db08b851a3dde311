"""Side-by-side measurements. Figures are ratios within one run: the machines are shared, absolute ones mean little."""
