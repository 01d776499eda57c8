"""Proof on the user's machine that what is drafted changes nothing but the speed."""
