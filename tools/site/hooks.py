"""What MkDocs lacks for the site of this repository (mkdocs.yml).

Documents link to files outside of docs/ (manifests, examples, CONTRIBUTING.md). The site has a page for each of them:
a document becomes a page of its own, another file is shown in a page below files/. The manual page becomes HTML. Where a
document names another one by its file, the site has that document's title.
"""
import functools
import os
import re
import subprocess
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MANUAL = DOCS / "ccmd.8"
METRICS = DOCS / "reference" / "metrics.md"
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
NAMED_BY_FILE = re.compile(r"\[[\w./-]+\.md\]\(([^)\s#]+)(#[^)\s]+)?\)")
LANGUAGES = {".yaml": "yaml", ".service": "ini"}


def on_config(config):
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    config.copyright = f"ccmd {version}. Apache License 2.0."
    if config.repo_url:
        config.edit_uri = "edit/main/docs/"


def on_files(files, config):
    """Adds the documents at the root of the tree, and the files that a document links to."""
    documents = [path for path in sorted(ROOT.glob("*.md")) if path.name != "README.md"]
    for path in documents:
        files.append(File.generated(config, path.name, content=rewrite(path, path.read_text())))
    linked = {target for path in [*documents, *DOCS.rglob("*.md")] for target in linked_files(path)} - {MANUAL}
    for path in sorted(linked):
        files.append(File.generated(config, page_of_file(path), content=show(path)))
    files.append(File.generated(config, page_of_file(MANUAL), content=manual()))
    return files


def on_page_markdown(markdown, page, **_):
    """The page's text, with links to other files of the tree replaced by links to their pages."""
    source = DOCS / page.file.src_uri
    if source == METRICS:
        markdown = without_buckets(markdown)
    return rewrite(source, markdown) if source.exists() else markdown


def without_buckets(markdown):
    """The table of metrics with the buckets in the column of meanings: another column does not fit beside the long names."""
    markdown = markdown.replace("| meaning | buckets |\n|---|---|---|---|---|\n", "| meaning |\n|---|---|---|---|\n")
    return re.sub(r" \| ([\de., -]*) \|$", lambda found: f" Buckets: {found[1]}. |" if found[1] else " |", markdown, flags=re.M)


def linked_files(path):
    targets = (resolve(path, link) for link in LINK.findall(path.read_text()))
    return {target for target in targets if target and target.is_file() and not is_in_site(target)}


def resolve(path, link):
    """The file or folder that a link of the document at path leads to; None for other sites and headings."""
    if re.match(r"[a-z]+:|#", link):
        return None
    return Path(os.path.normpath(path.parent / link.partition("#")[0]))


def is_in_site(target):
    """Whether MkDocs shows or copies the file by itself. It would copy the manual page, which no browser shows."""
    return target.suffix == ".md" or target.is_relative_to(DOCS) and target.suffix != ".8"


def rewrite(path, text):
    return LINK.sub(functools.partial(link_in_site, path), NAMED_BY_FILE.sub(functools.partial(named_by_title, path), text))


def named_by_title(path, link):
    """The link with the target's title, or its heading, in place of the name of its file."""
    target = resolve(path, link[1])
    if target is None or not target.is_file():
        return link[0]
    headings = re.findall(r"^#+ +(.+)$", target.read_text(), re.MULTILINE)
    named = [text for text in headings if "#" + slug(text) == link[2]]
    return f"[{(named or headings)[0]}]({link[1]}{link[2] or ''})"


def slug(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def link_in_site(path, link):
    target = resolve(path, link[1])
    if target is None or is_in_site(target) and target.suffix != ".md":
        return link[1]
    _, mark, heading = link[1].partition("#")
    return os.path.relpath(DOCS / page_of(target), (DOCS / page_of(path)).parent) + mark + heading


def page_of(target):
    """The source of its page, relative to docs/."""
    if target.suffix != ".md":
        return page_of_file(target)
    return target.relative_to(DOCS if target.is_relative_to(DOCS) else ROOT).as_posix()


def page_of_file(path):
    if path == MANUAL:
        return "reference/ccmd.8.md"
    return f"files/{path.relative_to(ROOT).as_posix()}.md"


def show(path):
    language = LANGUAGES.get(path.suffix, "sh" if path.read_text().startswith("#!") else "text")
    name = path.relative_to(ROOT).as_posix()
    return f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n\n# {name}\n\n````{language}\n{path.read_text()}\n````\n"


def manual():
    """The manual page as HTML, with headings that the table of contents has."""
    command = ["mandoc", "-T", "html", "-O", "fragment", MANUAL]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = re.sub(r'<table class="(?:head|foot)">.*?</table>|</?(?:section|div|br)[^>]*>', "", page, flags=re.DOTALL)
    page = re.sub(r'<h[12] class="(Sh|Ss)".*?>(.*?)</h[12]>', heading, page, flags=re.DOTALL)
    return f"---\ntitle: ccmd(8)\n---\n\n# ccmd(8)\n\n{page}\n"


def heading(found):
    text = re.sub(r"<[^>]+>|\s+", " ", found[2]).strip()
    return f"\n{'##' if found[1] == 'Sh' else '###'} {text.capitalize() if text.isupper() else text}\n"
