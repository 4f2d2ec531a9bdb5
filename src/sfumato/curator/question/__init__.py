"""What is asked, as frozen values: which rows, and what of them."""
