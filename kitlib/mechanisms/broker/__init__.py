"""The broker's side of the idempotent producer: where ids come from, what is remembered, what is answered."""
