"""One picture of a whole run for each domain: its module bears the domain's name, and `kitlib.views.scene` lists them."""
