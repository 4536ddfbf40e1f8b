"""The stage: the actors of a run, and what travels between them. `domains` lists which domains have one."""
