"""Finding what followed the same tokens before: suffix arrays over text kept on disk."""
