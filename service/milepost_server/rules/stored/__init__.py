"""What is stored of trees, and what every record has."""
