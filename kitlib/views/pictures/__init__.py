"""Pictures of real histories and of two runs side by side, which need no player: the `draw_*` functions."""
