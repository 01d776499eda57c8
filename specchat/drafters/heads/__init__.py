"""Drafting with trained heads, EAGLE-3 and NextN layers (MTP): rows of the target in, chains of tokens out."""
