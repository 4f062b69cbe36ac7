"""How the commands show things on a terminal."""
