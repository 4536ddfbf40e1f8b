"""The models behind the course, one file or folder an idea: the standard library alone, no clock, socket, thread or chance."""
