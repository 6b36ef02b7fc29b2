"""The settings as they are shown: the table of the README and of `gatehouse settings`."""

from pydantic import SecretStr

from service.settings import Settings


def settings_table() -> str:
    """The settings as a Markdown table, in the order of the class."""
    rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for name, info in Settings.model_fields.items():
        default = info.default
        shown = "" if isinstance(default, SecretStr) or default == "" else f"`{default}`"
        rows.append(f"| `{name}` | {shown} | {info.description} |")
    return "\n".join(rows) + "\n"
