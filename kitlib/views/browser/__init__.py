"""What is played in a reader's browser: the player and what is built around it, saved pages, and the site without a server.

The Python half of each lies beside its JavaScript.
"""
