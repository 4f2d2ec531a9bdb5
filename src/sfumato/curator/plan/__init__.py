"""What a question costs: contribution bounds, sensitivity, noise and price, from public facts only."""
