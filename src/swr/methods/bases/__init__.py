"""What methods derive from."""
