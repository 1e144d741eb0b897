"""Uploaded files as they are shown: what they are, what was read, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator

from alloc.server.pages.parts import Document, Table, View


def inspection_view(found: Document) -> View:
    """Return what files are."""
    rows = [(one["name"], found["roles"][one["role"]]) for one in found["files"]]
    tables = [Table("The files", ("file", "what it is"), rows)]
    for one in found["files"]:
        if one["columns"] is not None:
            tables.append(_columns_table(one["columns"], found["keys"]))
    return View("Files", f"{len(rows)} files looked at.", "fair", tables=tables)


def reading_view(found: Document) -> View:
    """Return what was read of files, and every row that was not."""
    accounts = list(_accounts(found["report"]))
    rows = [
        (", ".join(account["files"]), title, tally["reason"], f"{tally['count']:,}", where)
        for account in accounts
        for title, name in (
            ("not readable", "skipped"),
            ("left out", "dropped"),
            ("changed", "altered"),
        )
        for tally in account[name]
        for where in ("; ".join(tally["examples"]),)
    ]
    tables = []
    if rows:
        columns = ("file", "what happened", "why", "rows", "for example")
        tables.append(Table("Rows that are not as they stand in the files", columns, rows))
    if found["columns"] is not None:
        tables.append(_columns_table(found["columns"], {}))
    notes = [note for account in accounts for note in account["notes"]]
    lost = any(title != "changed" for _, title, *_ in rows)
    return View(
        "Files read",
        found["headline"],
        "fair" if lost else "good",
        tables=tables,
        lists=[("How the files were read", notes)] if notes else [],
    )


def _columns_table(columns: Document, keys: Document) -> Table:
    rows = [
        (one["column"], keys.get(one["is"], one["is"]), "guessed" if one["guessed"] else "as told")
        for one in columns["chosen"]
    ]
    return Table("Columns of the job table", ("column", "what it is", "by"), rows)


def _accounts(report: Document) -> Iterator[Document]:
    yield report
    for other in report["also"]:
        yield from _accounts(other)
