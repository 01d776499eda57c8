"""Will it fit: what models and their caches need, what the machine has, and what to do where it is too little."""
