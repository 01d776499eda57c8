"""The one room that speaks to llama.cpp: typed, zero-copy, checked before C can abort."""
