"""Draws what a program printed in a terminal: picture.py FILE.svg [TEXT]

Without TEXT, a file with the terminal's codes for colours, it runs ./dev demo; only some of its chapters are in the picture, so
that it fits on one screen. With TEXT, the title is the command `ccmd NAME` of NAME.svg.
"""
import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 112
INDENT = 21  # of the demo's notes
COMMAND_INDENT = 18  # of the texts of findings
CHAPTERS = ("ccmd starts", "A Service of type", "worker-2 is destroyed", "The inventory is emptied")
THEME = TerminalTheme((24, 27, 35), (220, 223, 228), [
    (60, 64, 72), (224, 108, 117), (122, 200, 122), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194), (220, 223, 228),
])
# As in rich, without its frame and without its font, which browsers would have to fetch from another server.
FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""


def main():
    target = Path(sys.argv[1])
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, color_system="standard")
    if len(sys.argv) > 2:
        title, text, indent = f"ccmd {target.stem}", f"$ ccmd {target.stem}\n{Path(sys.argv[2]).read_text()}", COMMAND_INDENT
    else:
        title, text, indent = "./dev demo", "\n".join(chapters(demo())), INDENT
    for line in Text.from_ansi(text).split("\n", allow_blank=True):
        for part in folded(line, indent):
            console.print(part)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(console.export_svg(title=title, theme=THEME, code_format=FORMAT, unique_id=target.stem))


def demo():
    """What ./dev demo writes to a terminal."""
    output = []

    def read(descriptor):
        output.append(os.read(descriptor, 65536))
        return output[-1]

    status = pty.spawn([str(ROOT / "dev"), "demo"], read)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit("./dev demo failed")
    return b"".join(output).decode().replace("\r\n", "\n")


def folded(line, indent):
    """The line in parts that fit, of which all but the first begin below the texts of the other lines."""
    while len(line) > COLUMNS:
        part, line = line.divide([line.plain.rindex(" ", 0, COLUMNS) + 1])
        yield part
        line = Text(" " * indent).append_text(line)
    yield line


def chapters(text):
    """The chosen ones. A chapter begins with an empty line and a line in bold."""
    for chapter in re.split(r"\n(?=\x1b\[1m)", text):
        title = chapter.removeprefix("\x1b[1m")
        if title.startswith(CHAPTERS):
            yield chapter.rstrip() + "\n"


if __name__ == "__main__":
    main()
