"""One partition's records: what each of them is after a step, and the strip of boxes that shows it."""
