"""What a demo tells: lines while it runs, then what came out, as a table and a picture."""
