"""Groups and their offsets: the records of __consumer_offsets byte by byte, and the manager that writes, caches and loads them."""
