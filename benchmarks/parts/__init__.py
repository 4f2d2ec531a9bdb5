"""What several benchmarks share. `make bench` runs the scripts beside this folder, not what is in it."""
