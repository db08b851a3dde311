"""Programs for work on Milepost, and the making of its site."""
