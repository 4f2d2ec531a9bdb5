"""What sessions over HTTP send and get beside questions: bodies, forms of answers, and streams."""
