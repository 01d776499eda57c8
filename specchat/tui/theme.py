"""The program's own two themes; Textual's are there as well."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="specchat-dark",
    primary="#7fb4ca",
    secondary="#a3b8a0",
    warning="#d9a66c",
    error="#e07a6e",
    success="#8fbf8f",
    accent="#b7a3d0",
    foreground="#d5d8d9",
    background="#15181b",
    surface="#1b1f23",
    panel="#23282d",
    dark=True,
    variables={
        "block-cursor-foreground": "#15181b",
        "block-cursor-background": "#7fb4ca",
        "block-cursor-text-style": "none",
        "input-selection-background": "#7fb4ca 30%",
        "border": "#394149",
        "border-blurred": "#2a3036",
        "scrollbar": "#2f363d",
        "scrollbar-background": "#15181b",
        "scrollbar-background-hover": "#15181b",
        "scrollbar-background-active": "#15181b",
    },
)
LIGHT: Final = Theme(
    name="specchat-light",
    primary="#2f6f8f",
    secondary="#55704f",
    warning="#9a6212",
    error="#b03a2e",
    success="#3d7a45",
    accent="#6d4f9c",
    foreground="#23282d",
    background="#f7f6f2",
    surface="#eeece6",
    panel="#e3e0d8",
    dark=False,
    variables={
        "block-cursor-foreground": "#f7f6f2",
        "block-cursor-background": "#2f6f8f",
        "block-cursor-text-style": "none",
        "input-selection-background": "#2f6f8f 25%",
        "border": "#c9c4b8",
        "border-blurred": "#dad6cc",
        "scrollbar": "#cfcabf",
        "scrollbar-background": "#f7f6f2",
        "scrollbar-background-hover": "#f7f6f2",
        "scrollbar-background-active": "#f7f6f2",
    },
)
OWN: Final = (DARK, LIGHT)
DEFAULT: Final = DARK.name
