"""What people and programs are shown: frozen snapshots, and the same as JSON."""
