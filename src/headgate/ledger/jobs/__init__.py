"""What becomes of jobs: from submission to their end, and what people do to them by hand."""
