"""The mathematics of speculation: numpy only, no model, no terminal."""
