"""What each request does, one module for each thing that it is about: decided, never carried out."""
